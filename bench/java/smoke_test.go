// Package java_test plays some hundred jobs through the driver of the peers in Java.
package java_test

import (
	"os"
	"testing"
	"time"

	"github.com/duetime/duetime/bench/drivertest"
	"github.com/duetime/duetime/bench/protocol"
	"github.com/duetime/duetime/bench/queue"
	"github.com/duetime/duetime/bench/server"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m)) }

const (
	many  = 150
	later = 40 // jobs that are scheduled an hour ahead, and moved to now where that can be done
	total = 2*many + 1
)

func TestRocketMQ(t *testing.T) {
	names := server.OwnRocketMQ(t, t.TempDir(), "broker/target/lib")
	t.Run("levels", func(t *testing.T) {
		runsOnce(t, queue.Env{System: "rocketmq-levels", RocketMQ: names}, 7*time.Second, false)
	})
	t.Run("timers", func(t *testing.T) {
		runsOnce(t, queue.Env{System: "rocketmq-timers", RocketMQ: names}, 3*time.Second, false)
	})
}

func TestRedisson(t *testing.T) {
	runsOnce(t, queue.Env{System: "redisson", Redis: pipelinetest.OwnRedis(t).Addr()}, 8*time.Second, true)
}

func TestJesque(t *testing.T) {
	runsOnce(t, queue.Env{System: "jesque", Redis: pipelinetest.OwnRedis(t).Addr()}, 3*time.Second, false)
}

// runsOnce runs jobs due at one moment, jobs due one after the other and one that is overdue, and moves some.
func runsOnce(t *testing.T, env queue.Env, ahead time.Duration, moves bool) {
	t.Helper()
	env.Workers = 8
	env.MySQL = pipelinetest.MySQL(t).NewSchema(t)
	tables := drivertest.OpenTables(t, env.MySQL)
	tables.Insert(t, 0)
	producer, worker := start(t, env), start(t, env)
	worker.Ask(protocol.Request{Op: "work", Effect: true})
	now := time.Now()
	soon, hour := now.Add(ahead).UnixMicro(), now.Add(time.Hour).UnixMicro()
	producer.Ask(protocol.Request{Op: "schedule", Count: 1, First: total - 1, Due: now.Add(-time.Second).UnixMicro()})
	producer.Ask(protocol.Request{Op: "schedule", Count: many, Due: soon})
	producer.Ask(protocol.Request{Op: "schedule", Count: many, First: many, Due: soon, Step: 2000})
	producer.Ask(protocol.Request{Op: "schedule", Count: later, First: total, Due: hour})
	moved := producer.Try(protocol.Request{Op: "move", Count: later, First: total, Due: soon, Callers: 4, Seconds: 0.5})
	if moves != (moved.Error == "") || moves != (moved.Jobs >= later) {
		t.Errorf("moved %+v, want all of %d jobs or, where the system can't move, an error", moved, later)
	}
	want := int64(total)
	if moves {
		want += later
	}
	pipelinetest.Await(t, "the effects of all jobs", func() bool { return tables.Fed(t) == want })
	pipelinetest.Await(t, "the record of all jobs", func() bool { return worker.Ask(protocol.Request{Op: "seen"}).Done == want })
	if done := tables.Done(t); done != 1 {
		t.Errorf("%d rows are done, want the one there is", done)
	}
	checkMarks(t, worker.Ask(protocol.Request{Op: "marks"}).Marks, want, hour-soon)
	if answer := producer.Try(protocol.Request{Op: "accept"}); answer.Error == "" {
		t.Error("no error for what the driver can't do")
	}
	producer.Stop()
	worker.Stop()
}

// checkMarks requires that each job left one mark, and none ran early. The payload of a moved job has the due time from
// before the move, which is so much later.
func checkMarks(t *testing.T, marks []queue.Mark, want, later int64) {
	t.Helper()
	times := map[int64]int{}
	for _, m := range marks {
		times[m.ID]++
		if m.ID >= total {
			m.Start, m.Done = m.Start+later, m.Done+later
		}
		if m.Start < 0 || m.Done < m.Start {
			t.Errorf("job %d ran from %d to %d µs after its due time", m.ID, m.Start, m.Done)
		}
	}
	for id := range want {
		if times[id] != 1 {
			t.Errorf("job %d ran %d times", id, times[id])
		}
	}
}

func start(t *testing.T, env queue.Env) *drivertest.Driver {
	t.Helper()
	if _, err := os.Stat("target/built"); err != nil {
		t.Fatal("the driver is not built: run bench/install")
	}
	return drivertest.Start(t, env,
		"java", "-Duser.home="+t.TempDir(), "-cp", "target/classes:target/lib/*", "com.duetime.bench.Driver")
}
