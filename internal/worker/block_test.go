package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// client is a service's client on the world's store.
func (w *world) client() *schedule.Client {
	w.t.Helper()
	cfg := schedule.Config{Logger: slog.New(slog.DiscardHandler)}
	c, err := schedule.New(cfg, w.store, worldtest.Nowhere{}, worldtest.Nowhere{})
	pipelinetest.Must(w.t, err)
	w.t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// block blocks the owner, and repeats the call while a task is being run.
func block(ctx context.Context, c *schedule.Client, owner string) error {
	for {
		if _, err := c.BlockOwner(ctx, owner); !errors.Is(err, task.ErrRunning) {
			return err
		}
	}
}

func (w *world) pendingOf(owner string) int {
	w.t.Helper()
	return w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE owner = ? AND state = 0", owner)
}

// What a transaction has scheduled that asked before the block and committed after it, its ticks too, does not run.
func TestTaskThatSlippedPastABlock(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		c := w.client()
		var slipped, others task.Task
		var recurs task.Recurrence
		w.inTx(func(ctx context.Context, tx *schedule.Tx) (err error) {
			if slipped, err = tx.Schedule(ctx, meal.New("ann", payload{}, task.In(0), task.Key("one"))); err != nil {
				return err
			}
			if others, err = tx.Schedule(ctx, meal.New("bob", payload{}, task.In(0))); err != nil {
				return err
			}
			recurs, err = tx.Recur(ctx, "meals", weekly, meal.Recurring("ann", payload{}), recur.Policy{})
			return err
		})
		w.store.Exec("INSERT INTO duetime_blocks (owner, at, actor) VALUES ('ann', 1, 'test')") // as if it had committed in between
		tick := w.store.Row(recurs.Newest)
		mux := worker.NewMux()
		worker.Handle(mux, meal, effect)
		got := w.passAll(w.worker(mux, engine.Config{}), slipped, others, tick)
		for _, made := range []task.Task{slipped, tick} {
			want(t, "state", w.store.Row(made.ID).State, task.Cancelled)
			want(t, "effects", w.effects(made.ID), 0)
			want(t, "result", got[made.ID].Result, "blocked")
			lines, err := w.store.History(t.Context(), made.ID, 10)
			pipelinetest.Must(t, err)
			if len(lines) != 1 || lines[0].Name != protocol.EventCancelled || lines[0].Detail != "owner is blocked" {
				t.Errorf("history is %+v, want one line that says why", lines)
			}
		}
		want(t, "pending tasks, also next ticks", w.pendingOf("ann"), 0)
		want(t, "effects of bob's", w.effects(others.ID), 1)
		pipelinetest.Must(t, c.UnblockOwner(t.Context(), "ann"))
		if _, err := c.Schedule(t.Context(), meal.New("ann", payload{}, task.In(0), task.Key("one"))); err != nil {
			t.Errorf("schedule under the key of the task that did not run: %v", err)
		}
	})
}

// A block waits for the handler that runs, and takes what it makes: also a recurrence, whose ticks would follow each other.
func TestBlockBesideARunningHandler(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	blocked := make(chan error, 1)
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		go func() { blocked <- block(t.Context(), c, tk.Owner) }()
		pipelinetest.Await(t, "the block waits for the row", func() bool {
			return len(blocked) > 0 || pipelinetest.LockWaits(t, w.store.DB()) > 0
		})
		if _, err := tx.Schedule(ctx, meal.New(tk.Owner, payload{}, task.In(0))); err != nil {
			return err
		}
		if _, err := tx.Recur(ctx, "meals", weekly, meal.Recurring(tk.Owner, payload{}), recur.Policy{}); err != nil {
			return err
		}
		return effect(ctx, tx, tk)
	})
	made := w.due(meal, 1)
	w.passAll(w.worker(mux, engine.Config{}), made...)
	pipelinetest.Must(t, <-blocked)
	want(t, "effects", w.effects(made[0].ID), 1)
	want(t, "pending tasks", w.pendingOf(made[0].Owner), 0)
	want(t, "recurrences that go on", w.store.Number("SELECT COUNT(*) FROM duetime_recurrences WHERE state < 2"), 0)
	if _, err := c.Schedule(t.Context(), meal.New(made[0].Owner, payload{}, task.In(0))); !errors.Is(err, task.ErrOwnerBlocked) {
		t.Errorf("schedule after the answer: %v, want %v", err, task.ErrOwnerBlocked)
	}
}

// A handler is refused what it would make for somebody who is blocked.
func TestHandlerSchedulesForABlockedOwner(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		pipelinetest.Must(t, block(t.Context(), w.client(), "ann"))
		var refused error
		mux := worker.NewMux()
		worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
			_, refused = tx.Schedule(ctx, meal.New("ann", payload{}, task.In(time.Hour)))
			return effect(ctx, tx, tk)
		})
		made := w.due(meal, 1)
		w.passAll(w.worker(mux, engine.Config{}), made...)
		if !errors.Is(refused, task.ErrOwnerBlocked) {
			t.Errorf("the handler got %v, want %v", refused, task.ErrOwnerBlocked)
		}
		want(t, "effects of a handler that passes over it", w.effects(made[0].ID), 1)
		want(t, "pending tasks", w.pendingOf("ann"), 0)
	})
}

// A handler blocks an owner with the end of its task, as the worker, and sees the tasks of its batch that have run as done.
func TestHandlerBlocksAnOwner(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		tasks := w.due(meal, 2)
		waiting := w.schedule(meal.New("bob", payload{}, task.In(time.Hour)))[0]
		calls := 0
		mux := worker.NewMux()
		worker.Handle(mux, meal, func(ctx context.Context, tx *schedule.Tx, tk worker.Task[payload]) error {
			if calls++; calls == 1 {
				return nil
			}
			other := tasks[0]
			if tk.ID == other.ID {
				other = tasks[1]
			}
			read, err := tx.GetMany(ctx, []task.ID{other.ID})
			if err != nil || len(read) != 1 || read[0].State != task.Done {
				t.Errorf("read %+v, %v, want the task that has run", read, err)
			}
			_, err = tx.As("ann@support").BlockOwner(ctx, "bob")
			return err
		})
		for id, o := range w.pass(w.worker(mux, engine.Config{}), tasks...) {
			want(t, "result of "+id.String(), o.Result, "done")
		}
		want(t, "state of the blocked owner's task", w.store.Row(waiting.ID).State, task.Cancelled)
		want(t, "blocks by the worker", w.store.Number("SELECT COUNT(*) FROM duetime_blocks WHERE owner = 'bob' AND actor = ?", protocol.ActorWorker), 1)
	})
}
