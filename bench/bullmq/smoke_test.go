// Package bullmq_test plays a few hundred jobs through BullMQ's driver.
package bullmq_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/duetime/duetime/bench/drivertest"
	"github.com/duetime/duetime/bench/protocol"
	"github.com/duetime/duetime/bench/queue"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines())) }

const (
	scheduled = 300
	later     = 40 // jobs scheduled an hour ahead, and moved to now
)

func TestDriverRunsEachJobOnce(t *testing.T) {
	t.Parallel()
	env := queue.Env{Redis: pipelinetest.OwnRedis(t).Addr(), Workers: 8}
	env.MySQL = pipelinetest.OwnMySQL(t).NewSchema(t) + "?interpolateParams=true"
	tables := drivertest.OpenTables(t, env.MySQL)
	producer, worker := start(t, env), start(t, env)

	hour := time.Now().Add(time.Hour).UnixMicro()
	soon := time.Now().Add(5 * time.Second).UnixMicro()
	worker.Ask(protocol.Request{Op: "work", Effect: true})
	producer.Ask(protocol.Request{Op: "schedule", Count: scheduled, Due: soon, Step: 2000})
	producer.Ask(protocol.Request{Op: "schedule", First: scheduled, Count: later, Due: hour})
	moved := producer.Ask(protocol.Request{Op: "move", First: scheduled, Count: later, Due: soon, Callers: 8, Seconds: 0.5})
	if moved.Jobs < later {
		t.Fatalf("only %d of %d jobs moved", moved.Jobs, later)
	}
	const first = scheduled + later
	accepted := producer.Ask(protocol.Request{Op: "accept", First: first, Due: soon, Step: 1000, Callers: 4, Seconds: 0.05, Bulk: 5})

	total := first + accepted.Jobs
	pipelinetest.Await(t, "the effects of all jobs", func() bool { return tables.Fed(t) == total })
	seen := worker.Ask(protocol.Request{Op: "seen"})
	if seen.Started != total || seen.Done != total || seen.Last < soon {
		t.Errorf("seen %+v, want %d started and done", seen, total)
	}
	ids := map[int64]bool{}
	for _, m := range worker.Ask(protocol.Request{Op: "marks"}).Marks {
		if m.ID >= scheduled && m.ID < first {
			m.Start += hour - soon // the payload has the time from before the move
			m.Done += hour - soon
		}
		if m.Start < 0 || m.Done < m.Start {
			t.Errorf("job %d ran from %d to %d µs after its due time", m.ID, m.Start, m.Done)
		}
		ids[m.ID] = true
	}
	if n := int64(len(ids)); n != total {
		t.Errorf("%d of %d jobs left a mark", n, total)
	}
	if rows := tables.Done(t); rows != accepted.Jobs {
		t.Errorf("%d rows are done, want the %d accepted", rows, accepted.Jobs)
	}
	if answer := producer.Try(protocol.Request{Op: "moveowner"}); answer.Error == "" {
		t.Error("no error for what BullMQ can't do")
	}
	producer.Stop()
	worker.Stop()
}

func start(t *testing.T, env queue.Env) *drivertest.Driver {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Fatal("BullMQ needs node: apt-get install -y --no-install-recommends nodejs npm")
	}
	if _, err := os.Stat("node_modules"); err != nil {
		t.Fatal("BullMQ is not installed: cd bench/bullmq && npm ci")
	}
	return drivertest.Start(t, env, "node", "driver.mjs")
}
