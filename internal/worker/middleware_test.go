package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

type middleware = func(next worker.HandlerFunc) worker.HandlerFunc

// label is the key of what middleware leaves in the context for the handler.
type label struct{}

// three has a kind for each form. Their handlers answer what by says, given their context.
func three(by func(ctx context.Context) error) (mux *worker.Mux, kinds []task.Kind[payload]) {
	mux = worker.NewMux()
	single, batch, outside := task.NewKind[payload]("single"), task.NewKind[payload]("batch"), task.NewKind[payload]("outside")
	worker.Handle(mux, single, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		return errors.Join(effect(ctx, tx, tk), by(ctx))
	})
	worker.HandleBatch(mux, batch, func(ctx context.Context, tx *worker.Tx, ts []worker.Task[payload]) error {
		for _, tk := range ts {
			if err := effect(ctx, tx, tk); err != nil {
				return err
			}
		}
		return by(ctx)
	})
	worker.HandleOutside(mux, outside, func(ctx context.Context, _ worker.Task[payload]) error { return by(ctx) })
	return mux, []task.Kind[payload]{single, batch, outside}
}

// Middleware sees each form's context, tasks and error, the first one as the outermost.
func TestMiddlewareSeesEachForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mu sync.Mutex
	var seen []string
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprintf(format, args...))
	}
	mux, kinds := three(func(ctx context.Context) error { note("handler of %v", ctx.Value(label{})); return nil })
	for _, name := range []string{"outer", "inner"} {
		mux.Use(func(next worker.HandlerFunc) worker.HandlerFunc {
			note("made %s", name)
			return func(ctx context.Context, tasks []task.Task) error {
				note("%s sees %d of %s", name, len(tasks), tasks[0].Kind)
				if name == "inner" {
					tasks = nil // the handler gets its tasks all the same
				}
				err := next(context.WithValue(ctx, label{}, name), tasks)
				note("%s: %v", name, err)
				return err
			}
		})
	}
	wk := w.worker(mux, engine.Config{})
	w.worker(mux, engine.Config{}) // a second worker of the mux makes no middleware
	want(t, "made", fmt.Sprint(seen), "[made inner made outer]")
	for i, kind := range kinds {
		seen = nil
		tasks := w.due(kind, []int{1, 2, 1}[i])
		got := w.pass(wk, tasks...)
		last, of := tasks[len(tasks)-1], fmt.Sprintf("%d of %s", len(tasks), kind.Name())
		want(t, "result", got[last.ID].Result, "done")
		want(t, "seen", strings.Join(seen, "; "),
			"outer sees "+of+"; inner sees "+of+"; handler of inner; inner: <nil>; outer: <nil>")
		if kind.Name() != "outside" {
			want(t, "effects", w.effects(last.ID), 1)
		}
	}
}

// What the outermost middleware answers is what the handler has answered, for each form.
func TestMiddlewareAnswers(t *testing.T) {
	t.Parallel()
	errOther := errors.New("other")
	answer := func(err error) middleware {
		return func(next worker.HandlerFunc) worker.HandlerFunc {
			return func(ctx context.Context, tasks []task.Task) error { _ = next(ctx, tasks); return err }
		}
	}
	for name, test := range map[string]struct {
		handler    error
		middleware middleware
		result     string
		err        string // part of the row's
		effects    int
	}{
		"another error": {errSick, answer(errOther), "failed", "other", 0},
		"an error":      {nil, answer(errOther), "failed", "other", 0},
		"nil":           {errSick, answer(nil), "done", "", 1},
		"snooze":        {nil, answer(fmt.Errorf("limited: %w", worker.Snooze(time.Hour))), "snoozed", "", 0},
		"discard":       {nil, answer(worker.Discard(errOther)), "dead", "other", 0},
		"nothing called": {errSick, func(worker.HandlerFunc) worker.HandlerFunc {
			return func(context.Context, []task.Task) error { return nil }
		}, "done", "", 0},
		"a panic": {nil, func(next worker.HandlerFunc) worker.HandlerFunc {
			return func(ctx context.Context, tasks []task.Task) error { _ = next(ctx, tasks); panic("at the disco") }
		}, "failed", "handler panicked: at the disco", 0},
		"a context from elsewhere": {nil, func(next worker.HandlerFunc) worker.HandlerFunc {
			return func(_ context.Context, tasks []task.Task) error { return next(context.Background(), tasks) }
		}, "failed", "does not come from its own", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			mux, kinds := three(func(context.Context) error { return test.handler })
			mux.Use(test.middleware)
			wk := w.worker(mux, engine.Config{})
			for _, kind := range kinds {
				made := w.due(kind, 1)[0]
				want(t, kind.Name()+": result", w.pass(wk, made)[made.ID].Result, test.result)
				contains(t, kind.Name()+": error on the row", w.store.Row(made.ID).LastError, test.err)
				if kind.Name() != "outside" {
					want(t, kind.Name()+": effects", w.effects(made.ID), test.effects)
				}
			}
		})
	}
}

func TestMiddlewareKnowsSnoozeAndDiscard(t *testing.T) {
	t.Parallel()
	wrap := func(err error) error { return fmt.Errorf("wrapped: %w", err) }
	for _, c := range []struct {
		err              error
		snooze, discards bool
	}{
		{nil, false, false},
		{errSick, false, false},
		{wrap(worker.Snooze(time.Second)), true, false},
		{wrap(worker.Discard(errSick)), false, true},
	} {
		want(t, fmt.Sprintf("%v is a snooze", c.err), worker.IsSnooze(c.err), c.snooze)
		want(t, fmt.Sprintf("%v is a discard", c.err), worker.IsDiscard(c.err), c.discards)
	}
}

// A handler that ran twice in one transaction would have its effect twice, and one that ran after its call would act for a
// task that is done.
func TestMiddlewareRunsTheHandlerOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var later []func() error // next of a call that is over
	mux, kinds := three(func(context.Context) error { return nil })
	mux.Use(func(next worker.HandlerFunc) worker.HandlerFunc {
		return func(ctx context.Context, tasks []task.Task) error {
			if tasks[0].Owner == "owner1" {
				later = append(later, func() error { return next(ctx, tasks) })
				return nil
			}
			first, second := next(ctx, tasks), next(ctx, tasks)
			if first != nil || second == nil {
				t.Errorf("got %v and %v of two calls of next, want only the second to be refused", first, second)
			}
			return nil
		}
	})
	wk := w.worker(mux, engine.Config{Batch: 1})
	for _, kind := range kinds[:2] {
		made := w.due(kind, 2)
		got := w.pass(wk, made...)
		want(t, "result", got[made[0].ID].Result, "done")
		want(t, "effects", w.effects(made[0].ID), 1)
		want(t, "effects without next", w.effects(made[1].ID), 0)
	}
	want(t, "calls of next that come late", len(later), 2)
	for _, next := range later {
		want(t, "a late call is refused", next() != nil, true)
	}
}

// Middleware is within the handler's time.
func TestMiddlewareEndsWithTheHandlersTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, hasty, effect)
	mux.Use(func(next worker.HandlerFunc) worker.HandlerFunc {
		return func(ctx context.Context, tasks []task.Task) error {
			if err := next(ctx, tasks); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}
	})
	wk := w.worker(mux, engine.Config{HandlerTimeout: limit})
	made := w.due(hasty, 1)[0]
	pipelinetest.Await(t, "charged", func() bool {
		w.pass(wk, made)
		return w.store.Row(made.ID).Attempt > 0
	})
	contains(t, "error on the row", w.store.Row(made.ID).LastError, hastyLimit)
	want(t, "effects", w.effects(made.ID), 0)
}

func TestMiddlewareIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, use := range map[string]func(mux *worker.Mux){
		"nil": func(mux *worker.Mux) { mux.Use(nil) }, "a nil hook": func(mux *worker.Mux) { mux.OnEvent(nil) },
	} {
		func() {
			defer func() { want(t, name+" panics", recover() != nil, true) }()
			use(worker.NewMux())
		}()
	}
	mux, _ := three(func(context.Context) error { return nil })
	same := func(next worker.HandlerFunc) worker.HandlerFunc { return next }
	mux.Use(same, func(worker.HandlerFunc) worker.HandlerFunc { return nil })
	for range 2 {
		_, err := engine.New(engine.Config{}, mux, w.store, w.log, w.index, w.log)
		contains(t, "refusal", fmt.Sprint(err), "middleware 2 of Use is nil")
	}
}
