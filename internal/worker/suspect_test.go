package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/streamtest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// suspectsOfTwoQueues returns a mux with a kind in each of two queues, and a due task of each. They were charged by a process
// that ended a minute ago, and their messages are there before a worker joins.
func (w *world) suspectsOfTwoQueues(handler func(context.Context, *worker.Tx, worker.Task[payload]) error) (*worker.Mux, []task.Task) {
	w.t.Helper()
	queues := []string{"one", "two"}
	w.log = streamtest.New(stream.Config{Namespace: "test", Partitions: 3, Queues: queues})
	mux := worker.NewMux()
	var specs []task.Spec
	for _, queue := range queues {
		kind := task.NewKind[payload](queue, task.Queue(queue))
		worker.Handle(mux, kind, handler)
		specs = append(specs, kind.New(queue, payload{}, task.In(0)))
	}
	tasks := w.schedule(specs...)
	w.store.Exec("UPDATE duetime_tasks SET attempt = 1, updated_at = updated_at - 60000")
	w.publish(tasks...)
	return mux, tasks
}

// If one of two suspects ends the process, the other must not have been charged for that: so they run one after the other.
func TestSuspectsOfAllQueuesRunOneAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var running, most atomic.Int64
	mux, tasks := w.suspectsOfTwoQueues(func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		running.Add(1)
		defer running.Add(-1)
		for began := time.Now(); running.Load() < 2 && time.Since(began) < 300*time.Millisecond; {
			time.Sleep(time.Millisecond) // until the other one comes, if it does
		}
		most.Store(max(most.Load(), running.Load()))
		return effect(ctx, tx, tk)
	})
	stop := w.run(w.worker(mux, engine.Config{}))
	pipelinetest.Await(t, "both are done", func() bool { return w.settled("one", "done")+w.settled("two", "done") == 2 })
	want(t, "stop", stop(), nil)
	want(t, "suspects side by side", most.Load(), 1)
	for _, made := range tasks {
		want(t, "attempts", w.store.Row(made.ID).Attempt, 2)
		want(t, "effects", w.effects(made.ID), 1)
	}
}

// While a suspect waits for one of another queue, other tasks of its owner and of its queue run.
func TestSuspectThatWaitsHoldsNothing(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]map[string]task.Limit{
		"without a limit": nil, "with one permit a queue": {"one": {Concurrency: 1}, "two": {Concurrency: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			suspects, running, end := map[task.ID]bool{}, make(chan string, 2), make(chan struct{})
			mux, made := w.suspectsOfTwoQueues(func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
				if suspects[tk.ID] {
					running <- tk.Queue
					<-end
				}
				return effect(ctx, tx, tk)
			})
			for _, suspect := range made {
				suspects[suspect.ID] = true
			}
			stop := w.run(w.worker(mux, engine.Config{Limits: limits}))
			other := map[string]string{"one": "two", "two": "one"}[<-running]
			kind := task.NewKind[payload](other, task.Queue(other))
			const rounds = 20 // the other suspect comes to its seat during one of them, if it has not before
			for n := range rounds {
				w.publish(w.schedule(kind.New(other, payload{}, task.In(0)), kind.New("somebody", payload{}, task.In(0)))...)
				pipelinetest.Await(t, "the others are done", func() bool { return w.settled(other, "done") == float64(2*(n+1)) })
			}
			close(end)
			pipelinetest.Await(t, "the suspects are done", func() bool {
				return w.settled("one", "done")+w.settled("two", "done") == 2*rounds+2
			})
			want(t, "stop", stop(), nil)
		})
	}
}

// A suspect that waits for one of another queue is neither charged nor run when the worker stops.
func TestStopEndsTheWaitOfASuspect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	running := make(chan task.ID, 2)
	mux, tasks := w.suspectsOfTwoQueues(func(ctx context.Context, _ *worker.Tx, tk worker.Task[payload]) error {
		running <- tk.ID
		<-ctx.Done()
		return ctx.Err()
	})
	stop := w.run(w.worker(mux, engine.Config{Drain: 50 * time.Millisecond}))
	first := <-running
	want(t, "stop", stop(), nil)
	want(t, "other calls", len(running), 0)
	for _, made := range tasks {
		want(t, "state", w.store.Row(made.ID).State, task.Pending)
		if made.ID != first {
			want(t, "attempts of the one that waited", w.store.Row(made.ID).Attempt, 1)
		}
	}
}
