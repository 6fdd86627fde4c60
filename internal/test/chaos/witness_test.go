package chaos_test

import (
	"cmp"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// witnessFaults are those that the witness counts.
var witnessFaults = []string{"lost", "doubled", "early", "stale", "after_cancel", "inverted"}

// TestWitness has the witness at work for a minute, or for as long as DUETIME_WITNESS_CLEAN says. At first entries of its tasks
// vanish from Redis, and it must count nothing: looks are off, so that sweeps alone mend that. A daemon that is killed, with plays
// under way, must leave no fault to the next one. Then an effect is written by hand, which it must see. An hour:
//
//	DUETIME_WITNESS_CLEAN=1h go test -v -timeout 2h -run '^TestWitness$' ./internal/test/chaos
func TestWitness(t *testing.T) {
	pipelinetest.Nightly(t)
	clean, err := time.ParseDuration(cmp.Or(os.Getenv("DUETIME_WITNESS_CLEAN"), "1m"))
	pipelinetest.Must(t, err)
	d := pipelinetest.SharedDeployment(t)
	d.Rules = append(d.Rules, "DUETIME_DAEMON__WITNESS=true", "DUETIME_WORKER__LATE=0s")
	d.Migrate(t) // the topic of its queue
	for _, name := range []string{"event", "worker"} {
		d.Ready(t, name)
	}
	daemon := d.Ready(t, "daemon")
	began := time.Now()
	calls := func() int { return int(daemon.Metric(t, "duetime_witness_calls_total{")) }
	wantNone := func() {
		t.Helper()
		var seen []string
		for _, fault := range witnessFaults {
			if n := daemon.Metric(t, `duetime_witness_faults_total{fault="`+fault+`"`); n > 0 {
				seen = append(seen, fmt.Sprint(n, " ", fault))
			}
		}
		if len(seen) > 0 {
			t.Fatalf("the witness reports %s after %v", strings.Join(seen, ", "), time.Since(began).Round(time.Second))
		}
	}
	pipelinetest.Await(t, "the witness to play", func() bool { return calls() > 0 })
	began = time.Now()
	for time.Since(began) < clean {
		if time.Since(began) < 10*time.Second {
			vanish(t, d)
		}
		wantNone()
		time.Sleep(time.Second)
	}
	for _, verb := range []string{"schedule", "replace", "move", "speed_up", "cancel", "recur", "redefine"} {
		pipelinetest.Await(t, "the witness to "+verb, func() bool {
			return daemon.Metric(t, `duetime_witness_calls_total{answer="yes",verb="`+verb+`"`) > 0
		})
	}
	pipelinetest.Await(t, "a verdict", func() bool {
		return daemon.Metric(t, "duetime_witness_last_verdict_timestamp_seconds") > float64(began.Unix())
	})
	wantNone()

	next := d.Ready(t, "daemon")
	pipelinetest.Must(t, daemon.Kill())
	daemon = next
	pipelinetest.Await(t, "the next daemon to play", func() bool { return calls() > 10 })
	wantNone()
	db, err := sql.Open("mysql", d.DSN)
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	pipelinetest.Await(t, "the witness to count a second effect", func() bool {
		_, err := db.ExecContext(t.Context(), `INSERT INTO duetime_witness_effects (play, part, due_at, at, data)
			SELECT play, part, due_at, at, data FROM duetime_witness_effects ORDER BY seq DESC LIMIT 1`)
		pipelinetest.Must(t, err)
		return daemon.Metric(t, `duetime_witness_faults_total{fault="doubled"`) > 0
	})
}

// vanish takes the witness's tasks out of the due sets.
func vanish(t *testing.T, d pipelinetest.Deployment) {
	t.Helper()
	r := redis.NewClient(&redis.Options{Addr: d.Redis})
	defer func() { _ = r.Close() }()
	for shard := range 16 {
		key := fmt.Sprintf("%s:{%d}:due", d.Namespace, shard)
		members, err := r.ZRange(t.Context(), key, 0, -1).Result()
		pipelinetest.Must(t, err)
		for _, m := range members {
			if strings.Contains(m, "duetime.witness") {
				pipelinetest.Must(t, r.ZRem(t.Context(), key, m).Err())
			}
		}
	}
}
