package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// The effect of the run stands, and the task runs once more with its new data.
func TestHandlerReplacesItsOwnTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	var outcome task.Outcome
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		if err := effect(ctx, tx, tk); err != nil || tk.Payload.Word == "new" {
			return err
		}
		spec := meal.New(tk.Owner, payload{Word: "new"}, task.In(0), task.KeyReplace("k"))
		next, err := tx.Schedule(ctx, spec)
		outcome = spec.Outcome(next)
		return err
	})
	wk := w.worker(mux, engine.Config{})
	made := w.schedule(meal.New("o", payload{Word: "old"}, task.In(0), task.Key("k")))[0]
	got := w.pass(wk, made)
	want(t, "result", got[made.ID].Result, "done")
	want(t, "outcome", outcome, task.Replaced)
	want(t, "effects of the first run", w.effects(made.ID), 1)
	row := w.store.Row(made.ID)
	want(t, "state", row.State, task.Pending)
	want(t, "payload", string(row.Payload), `{"word":"new"}`)
	puts := w.index.PutsOf(made.ID)
	want(t, "version put", puts[len(puts)-1].Version, row.Version)

	got = w.pass(wk, w.ready(made.ID))
	want(t, "result of the second run", got[made.ID].Result, "done")
	want(t, "effects of both runs", w.effects(made.ID), 2)
	want(t, "words of the second run", w.store.Number("SELECT COUNT(*) FROM effects WHERE word = 'new'"), 1)
	want(t, "state at the end", w.store.Row(made.ID).State, task.Done)
}

// MaxWait counts from a call of the handler: one that schedules its own task again, or fails, does not run without a pause.
func TestMaxWaitCountsFromTheHandlersCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	again := func() task.Spec {
		return meal.New("o", payload{Word: "again"}, task.In(time.Hour), task.KeyReplace("k"), task.MaxWait(time.Minute))
	}
	old := func(id task.ID) { // for a long time
		w.store.Exec("UPDATE duetime_tasks SET created_at = created_at - 9999999, due_at = updated_at, run_at = updated_at WHERE id = ?", id[:])
	}
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		if tk.Payload.Word == "fails" {
			return errSick
		}
		_, err := tx.Schedule(ctx, again())
		return err
	})
	wk := w.worker(mux, engine.Config{})
	made := w.schedule(meal.New("o", payload{}, task.In(0), task.Key("k")))[0]
	old(made.ID)
	w.pass(wk, w.ready(made.ID))
	row := w.store.Row(made.ID)
	want(t, "wait after its own replacement", row.DueAt.Sub(row.UpdatedAt), time.Minute)

	w.store.Exec(`UPDATE duetime_tasks SET payload = '{"word":"fails"}', tried_at = NULL WHERE id = ?`, made.ID[:])
	old(made.ID)
	want(t, "result", w.pass(wk, w.ready(made.ID))[made.ID].Result, "failed")
	failed := w.store.Row(made.ID)
	row = w.schedule(again())[0]
	want(t, "wait after a failure", row.DueAt, failed.TriedAt.Add(time.Minute))
	want(t, "moment of the failure", failed.TriedAt, failed.UpdatedAt)
}

func TestHandlerThatFailsReplacesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		_, err := tx.Schedule(ctx, meal.New(tk.Owner, payload{Word: "new"}, task.In(0), task.KeyReplace("k")))
		return errors.Join(err, errSick)
	})
	made := w.schedule(meal.New("o", payload{Word: "old"}, task.In(0), task.Key("k")))[0]
	got := w.pass(w.worker(mux, engine.Config{}), made)
	want(t, "result", got[made.ID].Result, "failed")
	row := w.store.Row(made.ID)
	want(t, "payload", string(row.Payload), `{"word":"old"}`)
	want(t, "attempt", row.Attempt, 1)
}

// A task of the batch that an earlier handler replaced waits for its new time.
func TestHandlerReplacesATaskOfItsBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	batch := w.schedule(meal.New("o", payload{}, task.In(0)), meal.New("o", payload{Word: "mate"}, task.In(0), task.Key("mate")))
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		_, err := tx.Schedule(ctx, meal.New("o", payload{Word: "later"}, task.In(time.Hour), task.KeyReplace("mate")))
		return errors.Join(err, effect(ctx, tx, tk))
	})
	got := w.pass(w.worker(mux, engine.Config{}), batch...)
	want(t, "result", got[batch[0].ID].Result, "done")
	want(t, "result of the mate", got[batch[1].ID].Result, "stale")
	want(t, "effects of the mate", w.effects(batch[1].ID), 0)
	mate := w.store.Row(batch[1].ID)
	want(t, "payload of the mate", string(mate.Payload), `{"word":"later"}`)
	want(t, "state of the mate", mate.State, task.Pending)
}
