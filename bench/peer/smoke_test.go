// Package peer_test opens each peer on its real server and has it run some hundred jobs.
package peer_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/duetime/duetime/bench/peer/asynq"
	"github.com/duetime/duetime/bench/peer/rabbitmq"
	"github.com/duetime/duetime/bench/peer/river"
	"github.com/duetime/duetime/bench/queue"
	"github.com/duetime/duetime/bench/server"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m)) }

type open func(context.Context, queue.Env) (queue.Queue, error)

func TestAsynq(t *testing.T) {
	env := queue.Env{Redis: pipelinetest.OwnRedis(t).Addr(), Workers: 8}
	// A due time loses its fraction of a second, so a task may start as much too early.
	for name, open := range map[string]open{"tuned": asynq.Open, "defaults": asynq.OpenDefaults} {
		t.Run(name, func(t *testing.T) { runs(t, open, env, time.Second) })
	}
}

func TestRiver(t *testing.T) {
	env := queue.Env{Postgres: server.OwnPostgres(t, t.TempDir()), Workers: 8}
	runs(t, river.Open, env, 0)
}

func TestRabbitMQ(t *testing.T) {
	env := queue.Env{AMQP: server.OwnRabbitMQ(t, t.TempDir()), Workers: 8}
	t.Run("per delay", func(t *testing.T) {
		runs(t, rabbitmq.Open, env, 0)
		if blocks(t, rabbitmq.Open, env) {
			t.Error("a longer delay holds back a shorter one")
		}
	})
	t.Run("per message", func(t *testing.T) {
		runs(t, rabbitmq.OpenTTL, env, 0)
		if !blocks(t, rabbitmq.OpenTTL, env) {
			t.Error("the head of the queue, with a longer delay, does not hold back what stands behind it")
		}
	})
}

// runs makes jobs due at one moment, jobs due one after the other and one that is overdue, and requires that each runs
// once, none more than early too soon.
func runs(t *testing.T, open open, env queue.Env, early time.Duration) {
	t.Helper()
	const many = 150
	now := time.Now().UnixMicro()
	var together, apart []queue.Job
	for i := range int64(many) {
		together = append(together, queue.Job{ID: i, Due: now + 1_500_000})
		apart = append(apart, queue.Job{ID: many + i, Due: now + 1_000_000 + i*2000})
	}
	marks := work(t, open, env, together, apart, []queue.Job{{ID: 2 * many, Due: now - 1_000_000}})
	times := map[int64]int{}
	for _, m := range marks {
		times[m.ID]++
		if m.Start < -early.Microseconds() {
			t.Errorf("job %d started %d µs early", m.ID, -m.Start)
		}
	}
	for id := range int64(2*many + 1) {
		if times[id] != 1 {
			t.Errorf("job %d ran %d times", id, times[id])
		}
	}
}

// blocks makes a job with a long delay and behind it one with a short delay, and says whether the second had to wait
// until the first was due.
func blocks(t *testing.T, open open, env queue.Env) bool {
	t.Helper()
	now := time.Now().UnixMicro()
	long, short := queue.Job{ID: 0, Due: now + 3_300_000}, queue.Job{ID: 1, Due: now + 1_500_000}
	for _, m := range work(t, open, env, []queue.Job{long, short}) {
		if m.ID == short.ID {
			return short.Due+m.Start >= long.Due
		}
	}
	t.Fatal("the second job left no mark")
	return false
}

// work schedules the jobs, call by call, from one queue and works them on another, as a producer and a worker do, and
// gives the marks that they left.
func work(t *testing.T, open open, env queue.Env, calls ...[]queue.Job) []queue.Mark {
	t.Helper()
	producer, worker := opened(t, open, env), opened(t, open, env)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	effects := queue.NewEffects(nil)
	ended := make(chan error, 1)
	go func() { ended <- worker.Work(ctx, effects) }()
	var made int64
	for _, jobs := range calls {
		pipelinetest.Must(t, producer.Schedule(ctx, jobs))
		made += int64(len(jobs))
	}
	pipelinetest.Await(t, "all jobs", func() bool { _, done, _ := effects.Seen(); return done >= made })
	cancel()
	pipelinetest.Must(t, <-ended)
	return effects.Marks()
}

func opened(t *testing.T, open open, env queue.Env) queue.Queue {
	t.Helper()
	q, err := open(t.Context(), env)
	pipelinetest.Must(t, err)
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return q
}
