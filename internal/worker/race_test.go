package worker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// A handler gets a deadlock, by which the server rolled back the effects of all before it, and swallows it.
func TestSwallowedDeadlockDoesNotCommitHalfABatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begin, ended := w.deadlock()
	var once sync.Once
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		if err := effect(ctx, tx, tk); err != nil {
			return err
		}
		if tk.Payload.Word != "2" {
			return nil
		}
		once.Do(func() {
			begin(ctx, tx)
			_, err := tx.ExecContext(ctx, "UPDATE counters SET n = n + 1 WHERE name = 'b'")
			want(t, "deadlock", err != nil, true)
		})
		return nil // swallowed
	})
	tasks := w.due(meal, 5)
	wk := w.worker(mux, engine.Config{})
	w.pass(wk, tasks...)
	pipelinetest.Must(t, <-ended)
	pipelinetest.Await(t, "all done", func() bool {
		w.pass(wk, tasks...)
		return w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 1") == 5
	})
	for _, made := range tasks {
		row := w.store.Row(made.ID)
		want(t, "state", row.State, task.Done)
		want(t, "effects", w.effects(made.ID), 1)
		want(t, "attempts", row.Attempt, 0)
	}
}

// Of ten tasks of a batch the first cancels the second, moves the third, moves itself, and looks at what has run.
func TestHandlerThatChangesBatchMatesAndItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var tasks []task.Task
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		if tk.Payload.Word == "1" {
			_, err := tx.Cancel(ctx, tasks[0].ID)
			want(t, "cancel of one that has run", errors.Is(err, task.ErrAlreadyDone), true)
			_, err = tx.Cancel(ctx, tasks[2].ID)
			want(t, "cancel of one to come", err, nil)
			_, err = tx.Reschedule(ctx, tasks[3].ID, task.In(time.Hour))
			want(t, "move of one to come", err, nil)
			_, err = tx.Shift(ctx, tk.ID, time.Hour)
			want(t, "move of itself", err, nil)
		}
		return effect(ctx, tx, tk)
	})
	tasks = w.due(meal, 5)
	got := w.pass(w.worker(mux, engine.Config{}), tasks...)
	for i, c := range []struct {
		state   task.State
		effects int
		result  string
		version int64
	}{
		{task.Done, 1, "done", 2},
		{task.Pending, 1, "done", 2},
		{task.Cancelled, 0, "already_done", 2},
		{task.Pending, 0, "stale", 2},
		{task.Done, 1, "done", 2},
	} {
		row := w.store.Row(tasks[i].ID)
		want(t, fmt.Sprintf("%d: state", i), row.State, c.state)
		want(t, fmt.Sprintf("%d: version", i), row.Version, c.version)
		want(t, fmt.Sprintf("%d: effects", i), w.effects(row.ID), c.effects)
		want(t, fmt.Sprintf("%d: result", i), got[row.ID].Result, c.result)
		puts := w.index.PutsOf(row.ID)
		want(t, fmt.Sprintf("%d: puts", i), len(puts), 1)
		want(t, fmt.Sprintf("%d: version put", i), puts[0].Version, row.Version)
		want(t, fmt.Sprintf("%d: state put", i), puts[0].State, row.State)
	}
}

// What a handler changed before it failed is undone with it, and its mates run as if nothing had been.
func TestFailingHandlerTakesItsChangesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var tasks []task.Task
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		if err := effect(ctx, tx, tk); err != nil {
			return err
		}
		switch tk.Payload.Word {
		case "1": // fails in the first transaction: the next one is careful
			return errSick
		case "2": // fails between savepoints, with changes made
			_, err := tx.Cancel(ctx, tasks[3].ID)
			want(t, "cancel", err, nil)
			_, err = tx.Schedule(ctx, meal.New("x", payload{Word: "follow-up"}, task.In(time.Hour)))
			want(t, "follow-up", err, nil)
			return errSick
		}
		return nil
	})
	tasks = w.due(meal, 5)
	got := w.pass(w.worker(mux, engine.Config{}), tasks...)
	for i, result := range []string{"done", "failed", "failed", "done", "done"} {
		want(t, fmt.Sprintf("%d: result", i), got[tasks[i].ID].Result, result)
		want(t, fmt.Sprintf("%d: effects", i), w.effects(tasks[i].ID), map[string]int{"done": 1}[result])
		want(t, fmt.Sprintf("%d: state", i), w.store.Row(tasks[i].ID).State, map[string]task.State{"done": task.Done}[result])
	}
	want(t, "tasks in all", w.store.Number("SELECT COUNT(*) FROM duetime_tasks"), 5)
	want(t, "puts", len(w.index.Puts()), 5)
}

// The mail is on its way when the player cancels.
func TestOutsideHandlerHoldsItsTaskAgainstCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sending, sent := make(chan struct{}), make(chan struct{})
	mux := worker.NewMux()
	worker.HandleOutside(mux, meal, func(ctx context.Context, _ worker.Task[payload]) error {
		close(sending)
		select {
		case <-sent:
		case <-ctx.Done():
		}
		return nil
	})
	made := w.due(meal, 1)[0]
	stop := w.run(w.worker(mux, engine.Config{HandlerTimeout: limit}))
	w.publish(made)
	<-sending
	cancel := func(ctx context.Context, tx *schedule.Tx) error {
		_, err := tx.Cancel(ctx, made.ID)
		return err
	}
	err := w.tryTx(cancel)
	want(t, "cancel while it runs: "+fmt.Sprint(err), errors.Is(err, task.ErrRunning), true)
	close(sent)
	pipelinetest.Await(t, "done", func() bool { return w.store.Row(made.ID).State == task.Done })
	err = w.tryTx(cancel)
	want(t, "cancel after: "+fmt.Sprint(err), errors.Is(err, task.ErrAlreadyDone), true)
	want(t, "stop", stop(), nil)
}

// A runner takes hints a little before their moment; it must not look before it, only to come back a millisecond later.
func TestRunnersLookAtTheMoment(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		const n, rounds = 40, 10
		mux := worker.NewMux()
		worker.Handle(mux, meal, effect)
		stop := w.run(w.worker(mux, engine.Config{}))
		var early []float64
		for done := n; len(early) < rounds; done += n {
			specs := make([]task.Spec, n)
			for i := range specs {
				specs[i] = meal.New(fmt.Sprintf("owner%d", i), payload{}, task.In(time.Second+time.Duration(i)*17*time.Millisecond))
			}
			before := w.settled("meal", "early")
			w.publish(w.schedule(specs...)...)
			pipelinetest.Await(t, "all are done", func() bool {
				return w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 1") == done
			})
			// Some may be: the worker knows the database's clock only to within a part of a round trip, and that part is
			// large until a probe meets a quiet moment of the machine.
			if early = append(early, w.settled("meal", "early")-before); early[len(early)-1] <= n/2 {
				break
			}
		}
		want(t, "stop", stop(), nil)
		if early[len(early)-1] > n/2 {
			t.Errorf("of %d in each round were looked at too early: %v", n, early)
		}
	})
}

// Somebody holds one row; its neighbours don't wait for it, and it is tried again.
func TestHeldRowIsSkippedAndTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	tasks := w.due(meal, 10)
	holder, err := w.store.Begin(t.Context())
	pipelinetest.Must(t, err)
	_, err = w.store.Lock(t.Context(), holder, []task.ID{tasks[4].ID})
	pipelinetest.Must(t, err)
	stop := w.run(w.worker(mux, engine.Config{Patience: limit}))
	w.publish(tasks...)
	pipelinetest.Await(t, "the neighbours are done", func() bool {
		return w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 1") == 9
	})
	pipelinetest.Must(t, holder.Rollback())
	pipelinetest.Await(t, "all are done", func() bool {
		return w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 1") == 10
	})
	want(t, "effects", w.store.Number("SELECT COUNT(*) FROM effects"), 10)
	want(t, "stop", stop(), nil)
}

// A frozen transaction holds one row for long: its hint must not keep the offsets behind it from being committed.
func TestStuckHintIsLetGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	tasks := w.due(meal, 10)
	holder, err := w.store.Begin(t.Context())
	pipelinetest.Must(t, err)
	_, err = w.store.Lock(t.Context(), holder, []task.ID{tasks[4].ID})
	pipelinetest.Must(t, err)
	stop := w.run(w.worker(mux, engine.Config{Patience: impatient}))
	w.publish(tasks...)
	pipelinetest.Await(t, "the offsets are committed", func() bool {
		return w.metric("duetime_hints_let_go_total", "reason", "stuck") == 1 &&
			!w.explained(time.Now().Add(time.Hour))
	})
	want(t, "stop", stop(), nil)
	pipelinetest.Must(t, holder.Rollback())
	want(t, "state", w.store.Row(tasks[4].ID).State, task.Pending)
}

// A kind bounds how many of its tasks share a transaction, and so how long one of them locks a row that others want.
func TestBatchOfAKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct{ limit, want int }{"1": {1, 1}, "2": {2, 2}, "no limit": {0, 5}, "more than there are": {9, 5}} {
		for _, form := range []string{"single", "batch"} {
			t.Run(form+", "+name, func(t *testing.T) {
				kind, mux := task.NewKind[payload]("limited", task.Batch(c.limit)), worker.NewMux()
				w.store.Exec("DELETE FROM effects")
				ran, together := 0, 0
				run := func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
					ran++
					together = max(together, ran-w.store.Number("SELECT COUNT(*) FROM effects")) // which counts what is committed
					return effect(ctx, tx, tk)
				}
				if form == "single" {
					worker.Handle(mux, kind, run)
				} else {
					worker.HandleBatch(mux, kind, func(ctx context.Context, tx *worker.Tx, tasks []worker.Task[payload]) error {
						for _, one := range tasks {
							if err := run(ctx, tx, one); err != nil {
								return err
							}
						}
						return nil
					})
				}
				w.passAll(w.worker(mux, engine.Config{}), w.due(kind, 5)...)
				want(t, "tasks that ran", ran, 5)
				want(t, "tasks in one transaction", together, c.want)
			})
		}
	}
}

// The row that all handlers change is free as soon as the first of them has ended, not only once the batch has.
func TestBatchOfOneHoldsNoRowForOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store.Exec("INSERT INTO counters VALUES ('city', 0)")
	kind := task.NewKind[payload]("limited", task.Batch(1))
	held := 0
	mux := worker.NewMux()
	worker.Handle(mux, kind, func(ctx context.Context, tx *worker.Tx, _ worker.Task[payload]) error {
		if w.store.Number("SELECT COUNT(*) FROM (SELECT n FROM counters WHERE name = 'city' FOR UPDATE SKIP LOCKED) AS free") == 0 {
			held++
		}
		_, err := tx.ExecContext(ctx, "UPDATE counters SET n = n + 1 WHERE name = 'city'")
		return err
	})
	w.publish(w.due(kind, 20)...)
	stop := w.run(w.worker(mux, engine.Config{Concurrency: 1}))
	pipelinetest.Await(t, "all done", func() bool { return w.store.Number("SELECT n FROM counters WHERE name = 'city'") == 20 })
	pipelinetest.Must(t, stop())
	want(t, "handlers that found the row locked", held, 0)
}
