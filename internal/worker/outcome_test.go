package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

var meal = task.NewKind[payload]("meal", task.MaxAttempts(3))

var errSick = errors.New("sick")

func TestDueTasksTakeEffectOnceAndAreDone(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		mux := worker.NewMux()
		worker.Handle(mux, meal, effect)
		wk := w.worker(mux, engine.Config{})
		tasks := w.due(meal, 20)
		twice := slices.Concat(tasks, tasks)
		w.pass(wk, twice...)
		w.pass(wk, tasks...)
		for _, made := range tasks {
			want(t, "effects", w.effects(made.ID), 1)
			row := w.store.Row(made.ID)
			want(t, "state", row.State, task.Done)
			want(t, "attempt", row.Attempt, 0)
			puts := w.index.PutsOf(made.ID)
			want(t, "state in the index", puts[0].State, task.Done)
			want(t, "version in the index", puts[0].Version, row.Version)
		}
		want(t, "done", w.settled("meal", "done"), 20)
		want(t, "already done", w.settled("meal", "already_done") > 0, true)
	})
}

func TestKindOfAnythingMayCarryNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nothing := task.NewKind[any]("nothing")
	var mux worker.Mux // its zero value is usable
	worker.Handle(&mux, nothing, func(_ context.Context, _ *worker.Tx, tk worker.Task[any]) error {
		if tk.Payload != nil {
			return errSick
		}
		return nil
	})
	made := w.schedule(nothing.New("a", nil, task.In(0)))[0]
	got := w.pass(w.worker(&mux, engine.Config{}), made)
	want(t, fmt.Sprintf("result (%v)", got[made.ID].Err), got[made.ID].Result, "done")
}

// A handler that leaves its transaction to a goroutine must not write into what its neighbours do.
func TestTxEndsWithItsHandler(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var leaked *worker.Tx
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		if leaked == nil {
			leaked = tx
			return effect(ctx, tx, tk)
		}
		own := context.Background()
		_, err := leaked.ExecContext(own, "INSERT INTO effects (task_id, word) VALUES ('leaked', '')") //nolint:contextcheck // what must not work
		want(t, "a statement is refused", err != nil, true)
		_, err = leaked.Schedule(own, meal.New("leaked", payload{}, task.In(0))) //nolint:contextcheck // what must not work
		want(t, "a task is refused", err != nil, true)
		_, err = leaked.Now(own) //nolint:contextcheck // what must not work
		want(t, "a look at the clock is refused", err != nil, true)
		return effect(ctx, tx, tk)
	})
	tasks := w.due(meal, 3)
	w.pass(w.worker(mux, engine.Config{}), tasks...)
	for _, made := range tasks {
		row := w.store.Row(made.ID)
		want(t, "state", row.State, task.Done)
		want(t, "attempt", row.Attempt, 0)
		want(t, "effects", w.effects(made.ID), 1)
	}
	want(t, "effects in all", w.store.Number("SELECT COUNT(*) FROM effects"), 3)
	want(t, "tasks", w.store.Number("SELECT COUNT(*) FROM duetime_tasks"), 3)
}

func TestRowAloneDecides(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		mux := worker.NewMux()
		worker.Handle(mux, meal, effect)
		wk := w.worker(mux, engine.Config{Patience: limit})
		soon := w.schedule(meal.New("a", payload{}, task.In(limit/2)))[0]
		far := w.schedule(meal.New("b", payload{}, task.In(time.Hour)))[0]
		moved := w.schedule(meal.New("c", payload{}, task.In(0)))[0]
		stranger := w.schedule(task.NewKind[payload]("stranger").New("d", payload{}, task.In(0)))[0]
		missing := task.Task{ID: task.NewID(), Kind: "meal", Owner: "e", Version: 1}
		left := w.schedule(meal.New("f", payload{}, task.In(0)))[0] // by another worker, long ago
		w.store.Exec("UPDATE duetime_tasks SET state = 1, version = 2, finished_at = 1, updated_at = 1 WHERE id = ?", left.ID[:])
		_, _, err := w.store.Archive(t.Context(), left.CreatedAt, 10)
		want(t, "error of the archive", err, nil)
		repeated := w.schedule(meal.New("g", payload{}, task.In(0)))[0] // its id is that of a task that has ended and left
		w.inTx(func(ctx context.Context, tx *schedule.Tx) error {
			_, err := tx.Reschedule(ctx, moved.ID, task.In(time.Hour))
			return err
		})
		w.store.Exec("INSERT INTO duetime_ended (id, kind, owner, payload, state, due_at, run_at, version, attempt, max_attempts, created_at, updated_at,"+
			" finished_at) SELECT id, kind, owner, payload, 1, due_at, run_at, 2, 0, 25, created_at, updated_at, updated_at FROM duetime_tasks WHERE id = ?",
			repeated.ID[:])
		got := w.pass(wk, soon, far, moved, stranger, missing, left, repeated)
		for _, c := range []struct {
			name    string
			id      task.ID
			result  string
			settled bool
		}{
			{"soon", soon.ID, "early", false},
			{"far", far.ID, "early", true},
			{"moved", moved.ID, "stale", true},
			{"stranger", stranger.ID, "unknown_kind", true},
			{"missing", missing.ID, "missing", true},
			{"left", left.ID, "already_done", true},
			{"repeated", repeated.ID, "already_done", true},
		} {
			want(t, c.name+": result", got[c.id].Result, c.result)
			want(t, c.name+": settled", got[c.id].Settled, c.settled)
			want(t, c.name+": effects", w.effects(c.id), 0)
		}
		want(t, "puts of what the row still says", len(w.index.PutsOf(soon.ID))+len(w.index.PutsOf(far.ID)), 0)
		want(t, "version put of the moved one", w.index.PutsOf(moved.ID)[0].Version, 2)
		want(t, "state of the repeated one", w.store.Row(repeated.ID).State, task.Cancelled)
		row := w.store.Row(stranger.ID)
		want(t, "attempts of an unknown kind", row.Attempt, 0)
		wait := row.RunAt.Sub(row.UpdatedAt)
		want(t, "wait of an unknown kind", wait >= 2*time.Second && wait <= 5*time.Second, true)
		want(t, "version put of it", w.index.PutsOf(stranger.ID)[0].Version, row.Version)
		want(t, "its label", w.settled("unknown", "unknown_kind"), 1)
	})
}

func TestTimeDoesNotGoBackInATransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	var now, due time.Time
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, t worker.Task[payload]) (err error) {
		if _, err := tx.ExecContext(ctx, `SET timestamp = UNIX_TIMESTAMP() - 30`); err != nil { // the session's clock
			return err
		}
		due = t.RunAt
		now, err = tx.Now(ctx)
		_, unset := tx.ExecContext(ctx, `SET timestamp = DEFAULT`)
		return errors.Join(err, unset)
	})
	w.pass(w.worker(mux, engine.Config{}), w.due(meal, 1)...)
	want(t, "a time before the task's own", now.Before(due), false)
	want(t, "done", w.settled("meal", "done"), 1)
}

func TestOnlyTheFailingTaskIsCharged(t *testing.T) {
	t.Parallel()
	fail := map[string]func(context.Context, *worker.Tx) error{
		"error": func(context.Context, *worker.Tx) error { return errSick },
		"panic": func(context.Context, *worker.Tx) error { panic("sick") },
		"sql": func(ctx context.Context, tx *worker.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO nowhere VALUES (1)")
			return err
		},
	}
	for name, sick := range fail {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			mux := worker.NewMux()
			worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
				if err := effect(ctx, tx, tk); err != nil {
					return err
				}
				if tk.Payload.Word == "3" || tk.Payload.Word == "5" {
					return sick(ctx, tx)
				}
				return nil
			})
			checkTwoSick(t, w, w.worker(mux, engine.Config{}))
		})
	}
}

func checkTwoSick(t *testing.T, w *world, wk *engine.Worker) {
	t.Helper()
	tasks := w.due(meal, 8)
	got := w.pass(wk, tasks...)
	for i, made := range tasks {
		row := w.store.Row(made.ID)
		if i == 3 || i == 5 {
			want(t, "result of a sick one", got[made.ID].Result, "failed")
			want(t, "state of a sick one", row.State, task.Pending)
			want(t, "attempts of a sick one", row.Attempt, 1)
			want(t, "effects of a sick one", w.effects(made.ID), 0)
			want(t, "error kept", row.LastError != "", true)
			want(t, "later", row.RunAt.After(row.DueAt), true)
			want(t, "promise unchanged", row.DueAt.Equal(made.DueAt), true)
			want(t, "version in the index", w.index.PutsOf(made.ID)[0].Version, row.Version)
			continue
		}
		want(t, "result", got[made.ID].Result, "done")
		want(t, "state", row.State, task.Done)
		want(t, "attempts", row.Attempt, 0)
		want(t, "effects", w.effects(made.ID), 1)
	}
}
