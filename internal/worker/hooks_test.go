package worker_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// reports keeps the events that a hook was called with.
type reports struct {
	mu  sync.Mutex
	all []worker.Event
}

func (r *reports) add(_ context.Context, e worker.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, e)
}

// of returns the only event of a task.
func (r *reports) of(t *testing.T, id task.ID) worker.Event {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []worker.Event
	for _, e := range r.all {
		if e.Task.ID == id {
			found = append(found, e)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d events of task %s, want one: %v", len(found), id, found)
	}
	return found[0]
}

// Hooks are called with what became of each task, when others can read it in the database.
func TestHooksAreCalledAfterTheCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var seen reports
	mux := worker.NewMux()
	once := task.NewKind[payload]("once", task.MaxAttempts(1))
	late := task.NewKind[payload]("late", task.CatchUpWindow(time.Minute))
	worker.Handle(mux, late, effect)
	worker.Handle(mux, once, func(context.Context, *worker.Tx, worker.Task[payload]) error { return errSick })
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		switch tk.Payload.Word {
		case "1":
			return errSick
		case "2":
			return worker.Snooze(time.Hour)
		case "3":
			return worker.Discard(errSick)
		case "4":
			_, err := tx.Shift(ctx, tk.ID, time.Hour)
			return err
		}
		return effect(ctx, tx, tk)
	})
	mux.OnEvent(func(_ context.Context, e worker.Event) {
		row := w.store.Row(e.Task.ID)
		want(t, e.Name+": version in the database", row.Version, e.Task.Version)
		want(t, e.Name+": state in the database", row.State, e.Task.State)
	})
	mux.OnEvent(seen.add)
	meals := w.due(meal, 5)
	dead, skipped := w.due(once, 1)[0], w.due(late, 1)[0]
	w.store.Exec("UPDATE duetime_tasks SET due_at = due_at - 7200000, run_at = run_at - 7200000 WHERE kind = 'late'")
	stranger := w.schedule(task.NewKind[payload]("stranger").New("ann", payload{}, task.In(0)))[0]
	early := w.dueIn(meal, 1, time.Hour)[0]
	w.pass(w.worker(mux, engine.Config{}), append(meals, dead, w.store.Row(skipped.ID), stranger, early)...)
	for _, c := range []struct {
		id    task.ID
		name  string
		state task.State
		err   string
	}{
		{meals[0].ID, task.EventDone, task.Done, "<nil>"},
		{meals[1].ID, task.EventFailed, task.Pending, "sick"},
		{meals[2].ID, task.EventSnoozed, task.Pending, "snoozed for 1h0m0s"},
		{meals[3].ID, task.EventDead, task.Dead, "discarded: sick"},
		{meals[4].ID, task.EventDone, task.Pending, "<nil>"}, // it moved itself
		{dead.ID, task.EventDead, task.Dead, "sick"},
		{skipped.ID, task.EventSkipped, task.Cancelled, "skipped: 2h"},
	} {
		e := seen.of(t, c.id)
		want(t, "name", e.Name, c.name)
		want(t, c.name+": state", e.Task.State, c.state)
		want(t, c.name+": version", e.Task.Version, w.store.Row(c.id).Version)
		if got := fmt.Sprint(e.Err); !strings.HasPrefix(got, c.err) {
			t.Errorf("%s: error is %s, want %s", c.name, got, c.err)
		}
	}
	want(t, "the handler's own error", errors.Is(seen.of(t, dead.ID).Err, errSick), true)
	want(t, "events", len(seen.all), 7)
}

// What was rolled back is not reported, nor is a run that was repeated for another task's sake.
func TestHooksAreNotCalledWithWhatWasRolledBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var seen reports
	calls := map[task.ID]int{}
	mux := worker.NewMux()
	mux.OnEvent(seen.add)
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		calls[tk.ID]++
		if tk.Payload.Word == "3" {
			return errSick
		}
		return effect(ctx, tx, tk)
	})
	tasks := w.due(meal, 5)
	w.pass(w.worker(mux, engine.Config{}), tasks...)
	want(t, "a handler ran twice", slices.Max(slices.Collect(maps.Values(calls))), 2)
	for _, made := range tasks {
		name := task.EventDone
		if made.ID == tasks[3].ID {
			name = task.EventFailed
		}
		want(t, "name", seen.of(t, made.ID).Name, name)
	}
}

// A hook that panics is nobody else's trouble.
func TestHookThatPanics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var seen reports
	var log strings.Builder
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	mux.OnEvent(func(context.Context, worker.Event) { panic("at the disco") })
	mux.OnEvent(seen.add)
	tasks := w.due(meal, 3)
	w.pass(w.worker(mux, engine.Config{Logger: textLogger(&log)}), tasks...)
	for _, made := range tasks {
		want(t, "state", w.store.Row(made.ID).State, task.Done)
		want(t, "name", seen.of(t, made.ID).Name, task.EventDone)
	}
	want(t, "panics", w.metric("duetime_hook_panics_total"), 3)
	contains(t, "log", log.String(), "at the disco")
	contains(t, "log", log.String(), "TestHookThatPanics") // in the stack
}

// Tasks go on while a hook hangs, and so does the end of the worker.
func TestHookThatHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	free := make(chan struct{})
	entered, left := make(chan struct{}, 100), make(chan struct{}, 100)
	var log strings.Builder
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	mux.OnEvent(func(context.Context, worker.Event) { // it ignores its context
		entered <- struct{}{}
		<-free
		left <- struct{}{}
	})
	stop := w.run(w.worker(mux, engine.Config{Logger: textLogger(&log)}))
	first := w.due(meal, 1)
	w.publish(first...)
	<-entered
	tasks := w.due(meal, 20)
	w.publish(tasks...)
	pipelinetest.Await(t, "all are done", func() bool {
		return w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 1") == 21
	})
	want(t, "stop", stop(), nil)
	contains(t, "log", log.String(), "hook ignores the end of its context")
	close(free)
	<-left // the goroutine that was left behind ends
	pipelinetest.Await(t, "what waited is counted as dropped", func() bool {
		return w.metric("duetime_events_dropped_total") == 20
	})
	want(t, "calls of the hook", len(entered), 0)
}

// Hooks have the time of the stop to report what waits.
func TestStopReportsWhatWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var seen reports
	running, stopping := make(chan struct{}), make(chan struct{})
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		close(running)
		<-stopping
		return effect(ctx, tx, tk)
	})
	mux.OnEvent(seen.add)
	stop := w.run(w.worker(mux, engine.Config{}))
	made := w.due(meal, 1)[0]
	w.publish(made)
	<-running
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	close(stopping)
	want(t, "run", <-ended, nil)
	want(t, "name", seen.of(t, made.ID).Name, task.EventDone)
}

// The answer to a commit is lost: the next look at the row reports that the task is done.
func TestHookIsCalledAfterALostAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var seen reports
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	mux.OnEvent(seen.add)
	stop := w.run(w.workerOn(&lossy{Store: w.store, end: (*sqlx.Tx).Commit}, mux, engine.Config{}))
	made := w.due(meal, 1)[0]
	w.publish(made)
	pipelinetest.Await(t, "done", func() bool { return w.settled("meal", "done") == 1 })
	want(t, "stop", stop(), nil)
	want(t, "name", seen.of(t, made.ID).Name, task.EventDone)
}
