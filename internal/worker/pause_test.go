package worker_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/transition"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// pauseUntil pauses until so long from now.
func (w *world) pauseUntil(of protocol.PauseOf, d time.Duration) time.Time {
	w.t.Helper()
	now, err := w.store.Now(w.t.Context(), nil)
	pipelinetest.Must(w.t, err)
	until := now.Add(d)
	pipelinetest.Must(w.t, w.store.PutPauses(w.t.Context(), w.store.DB(), []protocol.Pause{{PauseOf: of, Until: until, Made: now}}))
	return until
}

// Tasks of a paused owner are put off to the pause's end, uncharged, by one transaction; others run, and the paused ones go
// on at that moment.
func TestPausedOwnerGoesOnAtTheEnd(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		mux := worker.NewMux()
		worker.Handle(mux, meal, effect)
		until := w.pauseUntil(protocol.PauseOf{Queue: "default", Owner: "owner0"}, 3*time.Second)
		w.pauseUntil(protocol.PauseOf{Queue: "elsewhere", Owner: "owner1"}, time.Hour)
		stop := w.run(w.worker(mux, engine.Config{}))
		made := w.dueIn(meal, 2, 200*time.Millisecond)
		w.publish(made...)
		pipelinetest.Await(t, "the other owner's", func() bool { return w.settled("meal", "done") == 1 })
		pipelinetest.Await(t, "put off", func() bool { return w.settled("meal", "paused") == 1 })
		row := w.store.Row(made[0].ID)
		if !row.RunAt.Equal(until) || !row.DueAt.Equal(made[0].DueAt) || row.Version != 2 || row.Attempt != 0 || !transition.WaitsForPause(row) {
			t.Errorf("put off: %+v, want until %v", row, until)
		}
		pipelinetest.Await(t, "put into the index", func() bool { return len(w.index.PutsOf(row.ID)) == 1 })
		want(t, "there", w.index.PutsOf(row.ID)[0].RunAt, row.RunAt)
		w.publish(row) // as the event process does at that moment
		pipelinetest.Await(t, "goes on", func() bool { return w.settled("meal", "done") == 2 })
		ended := w.store.Row(row.ID)
		want(t, "done before the end", ended.FinishedAt.Before(until), false)
		want(t, "still says that it is paused", ended.LastError, "")
		want(t, "effects", w.effects(row.ID), 1)
		late := ended.FinishedAt.Sub(row.DueAt) + w.store.Row(made[1].ID).FinishedAt.Sub(made[1].DueAt)
		want(t, "the pause counts as lag", w.lag() > late.Seconds(), false)
		want(t, "stop", stop(), nil)
	})
}

// lag is the sum of all tasks' lag in seconds.
func (w *world) lag() (sum float64) {
	w.t.Helper()
	for _, m := range worldtest.Samples(w.t, w.reg, "duetime_fire_lag_seconds") {
		sum += m.GetHistogram().GetSampleSum()
	}
	return sum
}

// A handler that meets a limit pauses its owner in its queue: none of the owner's tasks is tried after it, in this batch or
// later, and others run.
func TestHandlerPausesItsKey(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		calls := 0
		mux := worker.NewMux()
		worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
			if tk.Owner != "ann" {
				return effect(ctx, tx, tk)
			}
			calls++
			return worker.PauseKey(time.Now().Add(time.Hour))
		})
		made := w.schedule(
			meal.New("ann", payload{"1"}, task.In(0)), meal.New("ann", payload{"2"}, task.In(0)), meal.New("ann", payload{"3"}, task.In(0)),
			meal.New("bob", payload{"4"}, task.In(0)),
		)
		wk := w.worker(mux, engine.Config{})
		for range 2 {
			w.pass(wk, made...)
		}
		want(t, "calls", calls, 1)
		want(t, "snoozed", w.settled("meal", "snoozed"), 1)
		want(t, "bob's", w.effects(made[3].ID), 1)
		stands, err := w.store.Pauses(t.Context())
		pipelinetest.Must(t, err)
		if len(stands) != 1 || stands[0].PauseOf != (protocol.PauseOf{Queue: "default", Owner: "ann"}) || stands[0].Actor != protocol.ActorWorker {
			t.Fatalf("pauses: %+v", stands)
		}
		for _, row := range made[:3] {
			now := w.store.Row(row.ID)
			if !now.RunAt.Equal(stands[0].Until) || now.Attempt != 0 || !transition.WaitsForPause(now) {
				t.Errorf("%+v, want it put off to %v", now, stands[0].Until)
			}
			if tried := !now.TriedAt.IsZero(); tried {
				if life := w.life(row.ID); len(life) != 1 || !strings.HasSuffix(life[0], "and with it its owner in queue default") {
					t.Errorf("its life: %q", life)
				}
			}
		}
		next := w.schedule(meal.New("ann", payload{"5"}, task.In(0)))
		w.pass(wk, next...)
		want(t, "calls", calls, 1)
	})
}

// What a handler has paused holds for the other tasks of its key at once, though the worker has read what operators ask just
// before.
func TestPauseByAHandlerOutlivesTheNextRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	calls := make(chan string, 10)
	worker.HandleOutside(mux, meal, func(_ context.Context, tk worker.Task[payload]) error {
		calls <- tk.Payload.Word
		return worker.PauseKey(time.Now().Add(time.Hour))
	})
	stop := w.run(w.worker(mux, engine.Config{}))
	w.publish(w.schedule(meal.New("ann", payload{"1"}, task.In(200*time.Millisecond)))...)
	pipelinetest.Await(t, "paused", func() bool { return w.settled("meal", "snoozed") == 1 })
	for i := range 3 {
		w.publish(w.schedule(meal.New("ann", payload{"2"}, task.In(0)))...)
		pipelinetest.Await(t, "put off", func() bool { return w.settled("meal", "paused") == float64(i+1) })
	}
	want(t, "calls", len(calls), 1)
	want(t, "stop", stop(), nil)
}

// remembers answers what it has read once: a worker whose reads fail knows no more.
type remembers struct {
	*store.Store

	known []protocol.Pause
	reads *atomic.Int32
}

func (r remembers) Pauses(context.Context) ([]protocol.Pause, error) {
	r.reads.Add(1)
	return r.known, nil
}

// A pause that a worker knows of is asked for in the transaction that would put a task off for it: it may have been resumed.
func TestPauseThatWasResumedHoldsUpNobody(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		mux := worker.NewMux()
		worker.Handle(mux, meal, effect)
		ann, bob := protocol.PauseOf{Owner: "ann"}, protocol.PauseOf{Owner: "bob"}
		until := w.pauseUntil(bob, time.Hour)
		known := []protocol.Pause{{PauseOf: ann, Until: until}, {PauseOf: bob, Until: until.Add(time.Hour)}}
		var reads atomic.Int32
		stop := w.run(w.workerOn(remembers{w.store.Store, known, &reads}, mux, engine.Config{}))
		pipelinetest.Await(t, "the worker to know", func() bool { return reads.Load() > 1 })
		made := w.schedule(meal.New("ann", payload{"1"}, task.In(0)), meal.New("bob", payload{"2"}, task.In(0)))
		w.publish(made...)
		pipelinetest.Await(t, "hers", func() bool { return w.settled("meal", "done") == 1 })
		pipelinetest.Await(t, "his", func() bool { return w.settled("meal", "paused") == 1 })
		want(t, "her effects", w.effects(made[0].ID), 1)
		want(t, "until when his waits", w.store.Row(made[1].ID).RunAt, until)
		want(t, "stop", stop(), nil)
	})
}

// A queue's pause with an end is over at that moment, though the worker looks at pauses once a second.
func TestPausedQueueGoesOnAtTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	now, err := w.store.Now(t.Context(), nil)
	pipelinetest.Must(t, err)
	until := now.Add(2500 * time.Millisecond)
	_, err = w.store.Pause(t.Context(), w.store.DB(), "default", now, until)
	pipelinetest.Must(t, err)
	stop := w.run(w.worker(mux, engine.Config{}))
	made := w.due(meal, 3)
	w.publish(made...)
	pipelinetest.Await(t, "goes on", func() bool { return w.settled("meal", "done") == 3 })
	for _, row := range made {
		if ended := w.store.Row(row.ID); ended.FinishedAt.Before(until) {
			t.Errorf("done %v before the end", until.Sub(ended.FinishedAt))
		}
	}
	want(t, "put off", w.settled("meal", "paused"), 0)
	want(t, "stop", stop(), nil)
}
