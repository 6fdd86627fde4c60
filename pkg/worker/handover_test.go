package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// closing is a store in which, once closed, somebody else has all rows locked, and which may forget what a worker says when it
// leaves.
type closing struct {
	worker.Store
	closed   atomic.Bool
	deaf     bool // to what a worker says when it leaves
	attempts atomic.Int64
}

func (c *closing) LockFree(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, time.Time, error) {
	rows, now, err := c.Store.LockFree(ctx, q, ids)
	if c.closed.Load() {
		c.attempts.Add(1)
		return nil, now, err
	}
	return rows, now, err
}

// Save closes behind the first charge.
func (c *closing) Save(ctx context.Context, q sqlx.ExtContext, tasks []task.Task) error {
	c.closed.Store(true)
	return c.Store.Save(ctx, q, tasks)
}

func (c *closing) HandOver(ctx context.Context, queue, holder string, parts []int, now time.Time) error {
	if c.deaf {
		return errGone
	}
	return c.Store.HandOver(ctx, queue, holder, parts, now)
}

// A suspect with one attempt is charged, the worker stops before it runs, and can't take the charge back: the task must run
// all the same, and if it fails be dead after that one attempt.
func TestLastAttemptThatWasChargedAndNeverRanIsRun(t *testing.T) {
	t.Parallel()
	single := task.NewKind[payload]("single", task.MaxAttempts(1))
	for name, c := range map[string]struct{ deaf, sick bool }{
		"left in good order":                  {},
		"left in good order, sick":            {sick: true},
		"MySQL was away at the end":           {deaf: true},
		"MySQL was away at the end, and sick": {deaf: true, sick: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var calls atomic.Int64
			mux := worker.NewMux()
			worker.Handle(mux, single, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
				calls.Add(1)
				if c.sick {
					return errSick
				}
				return effect(ctx, tx, tk)
			})
			made := w.due(single, 1)[0]
			w.publish(made) // before the worker joins: a suspect
			s := &closing{Store: w.store, deaf: c.deaf}
			stop := w.run(w.workerOn(s, mux, worker.Config{}))
			pipelinetest.Await(t, "charged, and then locked by somebody", func() bool { return s.attempts.Load() > 0 })
			want(t, "stop", stop(), nil)
			want(t, "state", w.store.Row(made.ID).State, task.Pending)
			want(t, "attempt that nobody took back", w.store.Row(made.ID).Attempt, 1)
			want(t, "calls before", calls.Load(), 0)
			stop = w.run(w.worker(mux, worker.Config{}))
			pipelinetest.Await(t, "it ended", func() bool { return w.store.Row(made.ID).State != task.Pending })
			want(t, "stop", stop(), nil)
			row := w.store.Row(made.ID)
			want(t, "attempts", row.Attempt, 1)
			want(t, "calls", calls.Load(), 1)
			if c.sick {
				want(t, "state", row.State, task.Dead)
				want(t, "error", row.LastError, errSick.Error())
			} else {
				want(t, "state", row.State, task.Done)
			}
		})
	}
}

// After a worker left in good order nothing is a suspect: no charge beforehand, and retries side by side. After a crash all
// that is due is.
func TestCleanRestartLeavesNoSuspects(t *testing.T) {
	t.Parallel()
	for name, crash := range map[string]bool{"left in good order": false, "crashed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			const n = 30
			var running, most atomic.Int64
			mux := worker.NewMux()
			worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				return effect(ctx, tx, tk)
			})
			s := &closing{Store: w.store, deaf: crash}
			stop := w.run(w.workerOn(s, mux, worker.Config{}))
			want(t, "stop", stop(), nil)
			tasks := w.due(meal, n)
			w.store.Exec("UPDATE duetime_tasks SET attempt = 1") // they have failed once
			w.publish(tasks...)
			stop = w.run(w.worker(mux, worker.Config{}))
			pipelinetest.Await(t, "all are done", func() bool { return w.settled("meal", "done") == n })
			want(t, "stop", stop(), nil)
			charged := 0
			if crash {
				charged = n
			}
			want(t, "charged beforehand", w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE attempt = 2"), charged)
			t.Logf("%d retries side by side at most", most.Load())
		})
	}
}

// A partition is lost while a handler runs: that may yet end the process, so whoever gets the partition has suspects.
func TestPartitionThatIsLostWithAHandlerRunningIsSuspect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	running, proceed := make(chan struct{}), make(chan struct{})
	mux := worker.NewMux()
	worker.HandleOutside(mux, meal, func(_ context.Context, tk worker.Task[payload]) error {
		if tk.Payload.Word == "0" {
			close(running)
			<-proceed
		}
		return nil
	})
	slow := w.dueIn(meal, 1, 500*time.Millisecond)
	heard := &listening{Store: w.store}
	stop := w.run(w.workerOn(heard, mux, worker.Config{HandlerTimeout: limit}))
	w.publish(slow...)
	<-running
	want(t, "left before", heard.left.Load(), 0)
	stopSecond := w.run(w.workerOn(heard, mux, worker.Config{})) // partitions move
	pipelinetest.Await(t, "all three partitions are taken anew", func() bool { return heard.taken.Load() == 6 })
	want(t, "left with nothing running", heard.left.Load(), 2)
	close(proceed)
	want(t, "stop", errors.Join(stopSecond(), stop()), nil)
	pipelinetest.Await(t, "all are left", func() bool {
		return w.store.Number("SELECT COUNT(*) FROM duetime_handovers WHERE left_at > 0") == 3
	})
}

// Found tasks whose messages came wait for their queue's rate as the worker stops. Nothing runs: all partitions are handed over.
func TestFoundTasksThatWaitAreHandedOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 12
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	heard := &accepting{log: w.log}
	wk, err := worker.New(worker.Config{
		Late: soon, Metrics: w.reg, Limits: map[string]task.Limit{"default": {Rate: task.Rate{Calls: 1, Per: time.Hour}}},
	}, mux, w.store, heard, w.index, w.log)
	pipelinetest.Must(t, err)
	stop := w.run(wk)
	tasks := w.due(meal, n)
	pipelinetest.Await(t, "all are found", func() bool { return w.found("late")+w.found("anybodys") >= n })
	w.publish(tasks...)
	pipelinetest.Await(t, "all messages are held", func() bool { return heard.accepted.Load() == n })
	want(t, "stop", stop(), nil)
	want(t, "partitions left in good order", w.store.Number("SELECT COUNT(*) FROM duetime_handovers WHERE left_at > 0"), 3)
}

// accepting is a stream that counts the messages that a worker has accepted.
type accepting struct {
	log      *stream.Local
	accepted atomic.Int64
}

func (a *accepting) Consume(ctx context.Context, queue string, fn func(context.Context, worker.Session) error) error {
	return a.log.Consume(ctx, queue, func(ctx context.Context, s worker.Session) error {
		return fn(ctx, &acceptingSession{Session: s, of: a})
	})
}

type acceptingSession struct {
	worker.Session
	of   *accepting
	last int // messages of the last Fetch
}

// Fetch is called once the messages of the last call are accepted.
func (s *acceptingSession) Fetch(ctx context.Context) ([]task.Delivery, error) {
	s.of.accepted.Add(int64(s.last))
	ds, err := s.Session.Fetch(ctx)
	s.last = len(ds)
	return ds, err
}

// listening is a store that counts the partitions that workers take over, and those that were left in good order.
type listening struct {
	worker.Store
	taken, left atomic.Int64
}

func (l *listening) TakeOver(ctx context.Context, queue, holder string, parts []int) ([]int, error) {
	left, err := l.Store.TakeOver(ctx, queue, holder, parts)
	l.left.Add(int64(len(left)))
	l.taken.Add(int64(len(parts)))
	return left, err
}

// The database does not answer as a worker gets its partitions: nothing is clean for that worker, and once the database answers,
// the row no longer says what the last holder left.
func TestPartitionsAreTakenOverOnceTheDatabaseAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	left := func() int { return w.store.Number("SELECT COUNT(*) FROM duetime_handovers WHERE left_at > 0") }
	stop := w.run(w.worker(mux, worker.Config{}))
	want(t, "stop", stop(), nil)
	want(t, "partitions left in good order", left(), 3)
	away := &awayAtFirst{Store: w.store}
	stop = w.run(w.workerOn(away, mux, worker.Config{}))
	want(t, "tries that failed", away.tries.Load() >= 1, true)
	made := w.due(meal, 1)[0]
	w.store.Exec("UPDATE duetime_tasks SET due_at = due_at - 60000, run_at = run_at - 60000") // due before the worker joined
	w.publish(w.store.Row(made.ID))
	pipelinetest.Await(t, "done", func() bool { return w.store.Row(made.ID).State == task.Done })
	want(t, "charged beforehand", w.store.Row(made.ID).Attempt, 1)
	pipelinetest.Await(t, "all are taken over", func() bool { return left() == 0 })
	want(t, "stop", stop(), nil)
	want(t, "partitions left in good order", left(), 3)
}

// awayAtFirst is a store whose first answer to a worker that takes partitions over is lost before it is written.
type awayAtFirst struct {
	worker.Store
	tries atomic.Int64
}

func (a *awayAtFirst) TakeOver(ctx context.Context, queue, holder string, parts []int) ([]int, error) {
	if a.tries.Add(1) == 1 {
		return nil, errGone
	}
	return a.Store.TakeOver(ctx, queue, holder, parts)
}
