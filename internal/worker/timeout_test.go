package worker_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

const hastyTime = 50 * time.Millisecond

// hasty is a kind with a timeout of its own, far below that of the workers here. It runs once in a test.
var hasty = task.NewKind[payload]("hasty", task.Timeout(hastyTime), task.Retry(task.Backoff{Min: 24 * time.Hour}))

const hastyLimit = "the timeout of kind hasty (task.Timeout) of 50ms"

func contains(t *testing.T, what, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%s: %q does not contain %q", what, text, part)
	}
}

// Each form of a handler has its kind's time, and others in the same worker have the worker's.
func TestTimeoutOfAKindEndsItsHandler(t *testing.T) {
	t.Parallel()
	wait := func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	for form, register := range map[string]func(mux *worker.Mux){
		"single": func(mux *worker.Mux) {
			worker.Handle(mux, hasty, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
				if err := effect(ctx, tx, tk); err != nil {
					return err
				}
				return wait(ctx)
			})
		},
		"batch": func(mux *worker.Mux) {
			worker.HandleBatch(mux, hasty, func(ctx context.Context, tx *worker.Tx, ts []worker.Task[payload]) error {
				if err := effect(ctx, tx, ts[0]); err != nil {
					return err
				}
				return wait(ctx)
			})
		},
		"outside": func(mux *worker.Mux) {
			worker.HandleOutside(mux, hasty, func(ctx context.Context, _ worker.Task[payload]) error { return wait(ctx) })
		},
	} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var left time.Duration
			mux := worker.NewMux()
			register(mux)
			worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
				deadline, _ := ctx.Deadline()
				left = time.Until(deadline)
				return effect(ctx, tx, tk)
			})
			wk := w.worker(mux, engine.Config{HandlerTimeout: limit})
			other, made := w.due(meal, 1)[0], w.due(hasty, 2)
			w.pass(wk, other)
			want(t, "the worker's time for others", left > limit/2, true)
			pipelinetest.Await(t, "all are charged", func() bool { // a lost connection may put one off
				w.pass(wk, made...)
				return w.store.Row(made[0].ID).Attempt > 0 && w.store.Row(made[1].ID).Attempt > 0
			})
			for _, m := range made {
				contains(t, "error on the row", w.store.Row(m.ID).LastError, hastyLimit)
				want(t, "effects", w.effects(m.ID), 0)
			}
		})
	}
}

// A batch has its kind's time once, not once for each task.
func TestTimeoutOfAKindBoundsTheCallOfABatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	type call struct {
		tasks int
		left  time.Duration
	}
	calls := make(chan call, 1)
	mux := worker.NewMux()
	worker.HandleBatch(mux, hasty, func(ctx context.Context, _ *worker.Tx, ts []worker.Task[payload]) error {
		deadline, _ := ctx.Deadline()
		calls <- call{len(ts), time.Until(deadline)}
		return nil
	})
	w.pass(w.worker(mux, engine.Config{HandlerTimeout: limit}), w.due(hasty, 8)...)
	got := <-calls
	want(t, "tasks", got.tasks, 8)
	want(t, "time of the call", got.left <= hastyTime, true)
}

// A handler that ignores the end of its kind's time is abandoned long before the worker's, and the row names the limit.
func TestHandlerThatIgnoresItsKindsTimeIsAbandoned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	free := make(chan struct{})
	var back atomic.Int64
	mux := worker.NewMux()
	worker.Handle(mux, hasty, func(context.Context, *worker.Tx, worker.Task[payload]) error {
		<-free
		back.Add(1)
		return nil
	})
	wk := w.worker(mux, engine.Config{HandlerTimeout: limit})
	made := w.due(hasty, 1)[0]
	began := time.Now()
	pipelinetest.Await(t, "charged", func() bool {
		w.pass(wk, made)
		return w.store.Row(made.ID).Attempt > 0
	})
	want(t, "before the worker's time", time.Since(began) < limit, true)
	abandoned := w.metric("duetime_handlers_abandoned_total")
	want(t, "abandoned", abandoned > 0, true)
	contains(t, "error on the row", w.store.Row(made.ID).LastError, "abandoned: handler exceeded "+hastyLimit)
	running := wk.Calls()
	want(t, "calls that run still", float64(len(running)), abandoned)
	for _, c := range running {
		want(t, "what runs", c, protocol.Call{Kind: "hasty", Task: made.ID, Tasks: 1, SinceMs: c.SinceMs, LimitMs: hastyTime.Milliseconds()})
		want(t, "since about when it was due", time.UnixMilli(c.SinceMs).Sub(made.DueAt).Abs() < 10*limit, true)
	}
	close(free)
	pipelinetest.Await(t, "it comes back", func() bool { return float64(back.Load()) == abandoned })
	want(t, "calls that run", len(wk.Calls()), 0)
}

// A suspect is charged before it runs, and not once more when it exceeds its kind's time.
func TestSuspectThatExceedsItsKindsTimeIsChargedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	before := make(chan int, 10)
	worker.Handle(mux, hasty, func(ctx context.Context, _ *worker.Tx, tk worker.Task[payload]) error {
		before <- tk.Attempt
		<-ctx.Done()
		return ctx.Err()
	})
	made := w.due(hasty, 1)[0]
	w.publish(made) // before the worker joins: a suspect
	stop := w.run(w.worker(mux, engine.Config{HandlerTimeout: limit}))
	want(t, "charged beforehand", <-before, 1)
	pipelinetest.Await(t, "failed", func() bool { return w.settled("hasty", "failed") == 1 })
	want(t, "attempts", w.store.Row(made.ID).Attempt, 1)
	contains(t, "error on the row", w.store.Row(made.ID).LastError, hastyLimit)
	want(t, "stop", stop(), nil)
}

// What the worker's connections and its drain rest on is the worker's timeout: no kind may have more.
func TestTimeoutAboveTheWorkersIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	slow := task.NewKind[payload]("slow", task.Timeout(time.Minute))
	mux := worker.NewMux()
	worker.Handle(mux, hasty, effect)
	worker.Handle(mux, slow, effect)
	want(t, "the longest timeout", engine.LongestTimeout(mux), time.Minute)
	_, err := engine.New(engine.Config{}, mux, w.store, w.log, w.index, w.log)
	if err == nil {
		t.Fatal("a kind's timeout of a minute was taken by a worker with ten seconds")
	}
	for _, part := range []string{"kind slow", "task.Timeout) of 1m0s", "worker.handler_timeout, Config.HandlerTimeout) of 10s"} {
		contains(t, "refusal", err.Error(), part)
	}
	_, err = engine.New(engine.Config{HandlerTimeout: time.Minute}, mux, w.store, w.log, w.index, w.log)
	want(t, "a worker with as much time", err, nil)
}

func TestStrictPayloadIsAFailedAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	type newer struct {
		Word string `json:"word"`
		More int    `json:"more"`
	}
	strict := task.NewKind[payload]("strict", task.StrictPayload())
	mux := worker.NewMux()
	worker.Handle(mux, strict, effect)
	made := w.schedule(
		task.NewKind[newer]("strict").New("ann", newer{Word: "a", More: 1}, task.In(0)),
		strict.New("bob", payload{Word: "b"}, task.In(0)),
	)
	got := w.pass(w.worker(mux, engine.Config{}), made...)
	want(t, "result of the newer payload", got[made[0].ID].Result, "failed")
	want(t, "attempts", w.store.Row(made[0].ID).Attempt, 1)
	want(t, "effects", w.effects(made[0].ID), 0)
	contains(t, "error on the row", w.store.Row(made[0].ID).LastError, `unknown field "more"`)
	want(t, "result of its own payload", got[made[1].ID].Result, "done")
}
