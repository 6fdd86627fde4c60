package prometheus_test

import (
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// TestFaultsTurnTheirAlertsTrue makes each runbook's fault in a real deployment: the alert's query must turn true on what
// the processes show, and false again when the fault is over.
func TestFaultsTurnTheirAlertsTrue(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	t.Run("healthy", func(t *testing.T) {
		s.t = t
		quiet := 0
		for end := time.Now().Add(2 * time.Minute); quiet < 5; time.Sleep(time.Second) {
			s.feed()
			if active := s.look(); len(active) == 0 {
				quiet++
			} else if quiet = 0; time.Now().After(end) {
				t.Fatalf("true although all is well: %v", active)
			}
		}
	})
	for _, c := range []struct {
		alert  string
		server *pipelinetest.Server
	}{
		{"DuetimeRedisLost", s.redis.Server},
		{"DuetimeKafkaLost", s.kafka.Server},
		{"DuetimeZooKeeperLost", s.zookeeper.Server},
		{"DuetimeMySQLLost", s.mysql.Server},
	} {
		t.Run(c.alert, func(t *testing.T) {
			s.t = t
			pipelinetest.Must(t, c.server.Stop())
			s.await(c.alert, true, nil)
			pipelinetest.Must(t, c.server.Start())
			s.await(c.alert, false, nil)
		})
	}
	for alert, name := range map[string]string{"DuetimeNoLeader": "event", "DuetimeNoDaemonLeader": "daemon"} {
		t.Run(alert, func(t *testing.T) {
			s.t = t
			s.stop(name)
			s.await(alert, true, nil)
			s.start(name)
			s.await(alert, false, nil)
		})
	}
	t.Run("DuetimeWorkersDegraded", func(t *testing.T) {
		s.t = t
		s.stop("event")
		s.await("DuetimeWorkersDegraded", true, s.feed)
		s.start("event")
		s.await("DuetimeWorkersDegraded", false, nil)
	})
	t.Run("DuetimeOldestDueOld, then DuetimeLateBurn14x", func(t *testing.T) {
		s.t = t
		s.stop("worker")
		for range 20 { // fewer late tasks are not worth a page
			s.feed()
		}
		s.await("DuetimeOldestDueOld", true, nil)
		s.start("worker")
		s.await("DuetimeOldestDueOld", false, nil)
		s.await("DuetimeLateBurn14x", true, nil)
	})
	t.Run("DuetimeConsumerLagGrowing", func(t *testing.T) {
		s.t = t
		s.stop("worker")
		s.await("DuetimeConsumerLagGrowing", true, func() { s.insert(500, "nobody.knows", "{}") })
		_, err := s.db.ExecContext(t.Context(), "UPDATE duetime_tasks SET state = 2, version = version + 1 WHERE kind = 'nobody.knows'")
		pipelinetest.Must(t, err)
		s.start("worker")
		s.await("DuetimeConsumerLagGrowing", false, nil)
	})
	t.Run("DuetimeTasksDead", func(t *testing.T) {
		s.t = t
		s.insert(1, "pet.meal_finished", `"no meal at all"`)
		_, err := s.db.ExecContext(t.Context(), `UPDATE duetime_tasks SET max_attempts = attempt + 1 WHERE state = 0 AND payload = '"no meal at all"'`)
		pipelinetest.Must(t, err)
		s.await("DuetimeTasksDead", true, nil)
		if code, out := s.Duetime(t, "dead", "discard", "--kind", "pet.meal_finished", "--yes"); code != 0 {
			t.Fatalf("exit code %d: %s", code, out)
		}
		s.await("DuetimeTasksDead", false, nil)
	})
	t.Run("DuetimePromiseBroken", func(t *testing.T) {
		s.t = t
		s.await("DuetimePromiseBroken", true, func() {
			_, err := s.db.ExecContext(t.Context(), `INSERT INTO duetime_witness_effects (play, part, due_at, at, data)
				SELECT play, part, due_at, at, data FROM duetime_witness_effects ORDER BY seq DESC LIMIT 1`)
			pipelinetest.Must(t, err)
		})
	})
	t.Run("DuetimeUnknownKind", func(t *testing.T) {
		s.t = t
		s.await("DuetimeUnknownKind", true, func() { s.insert(1, "nobody.knows", "{}") })
		_, err := s.db.ExecContext(t.Context(), "UPDATE duetime_tasks SET state = 2, version = version + 1 WHERE kind = 'nobody.knows' AND state = 0")
		pipelinetest.Must(t, err)
	})
	t.Run("a kind that nobody handles while Kafka is away, and no DuetimeOldestDueOld", func(t *testing.T) {
		s.t = t
		pipelinetest.Must(t, s.kafka.Stop())
		s.insert(1, "nobody.heard.of", "{}")
		pipelinetest.Await(t, "the daemon to count it", func() bool {
			return s.apps["daemon"].Metric(t, `duetime_unhandled_tasks{kind="nobody.heard.of"`) == 1
		})
		for late := false; !late; time.Sleep(time.Second) {
			if s.look()["DuetimeOldestDueOld"] {
				t.Error("a kind that nobody handles pages as if workers were late")
			}
			err := s.db.QueryRowContext(t.Context(), `SELECT run_at + 10000 < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000
				FROM duetime_tasks WHERE kind = 'nobody.heard.of'`).Scan(&late)
			pipelinetest.Must(t, err)
		}
		_, err := s.db.ExecContext(t.Context(), "UPDATE duetime_tasks SET state = 2, version = version + 1 WHERE kind = 'nobody.heard.of'")
		pipelinetest.Must(t, err)
		pipelinetest.Must(t, s.kafka.Start())
		s.await("DuetimeKafkaLost", false, nil)
	})
	t.Run("DuetimeEndpointAway", func(t *testing.T) {
		s.t = t
		s.insert(10, "shop.order", "{}")
		s.await("DuetimeEndpointAway", true, nil)
		l, err := net.Listen("tcp", s.endpoint)
		pipelinetest.Must(t, err)
		var answer atomic.Int64
		answer.Store(http.StatusUnauthorized)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(int(answer.Load()))
		})}
		t.Cleanup(func() { _ = server.Close() })
		go func() { _ = server.Serve(l) }()
		s.await("DuetimeEndpointRefuses", true, nil)
		answer.Store(http.StatusOK)
		s.await("DuetimeEndpointRefuses", false, nil)
		s.await("DuetimeEndpointAway", false, nil)
	})
	t.Run("DuetimeSweepStopped", func(t *testing.T) {
		s.t = t
		rename := func(from, to string) {
			_, err := s.db.ExecContext(t.Context(), "RENAME TABLE "+from+" TO "+to)
			pipelinetest.Must(t, err)
		}
		rename("duetime_epochs", "elsewhere") // no pass begins without its epoch
		s.await("DuetimeSweepStopped", true, nil)
		rename("elsewhere", "duetime_epochs")
		s.await("DuetimeSweepStopped", false, nil)
	})
	redisClient := redis.NewClient(&redis.Options{Addr: s.redis.Addr(), Protocol: 2})
	t.Cleanup(func() { _ = redisClient.Close() })
	t.Run("DuetimeDrift", func(t *testing.T) {
		s.t = t
		junk := 0
		s.await("DuetimeDrift", true, func() {
			junk++
			member := redis.Z{Score: float64(junk), Member: "junk" + strconv.Itoa(junk)}
			pipelinetest.Must(t, redisClient.ZAdd(t.Context(), s.Namespace+":{0}:owner:nobody", member).Err())
		})
		s.await("DuetimeDrift", false, nil)
	})
	faultsOfProcesses(t, s, redisClient)
	t.Run("DuetimeRedisEvicts", func(t *testing.T) {
		s.t = t
		for setting, value := range map[string]string{"maxmemory": "4mb", "maxmemory-policy": "allkeys-random"} {
			pipelinetest.Must(t, redisClient.ConfigSet(t.Context(), setting, value).Err())
		}
		n := 0
		s.await("DuetimeRedisEvicts", true, func() {
			for range 100 {
				n++
				pipelinetest.Must(t, redisClient.Set(t.Context(), "filler"+strconv.Itoa(n), make([]byte, 10_000), 0).Err())
			}
		})
	})
}
