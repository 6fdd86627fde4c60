package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/transition"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

var weekly = recur.Every(7 * 24 * time.Hour)

// recur makes n recurrences of a kind, each of an owner of its own, and returns them with their tasks moved to now.
func (w *world) recur(kind task.Kind[payload], policy recur.Policy, n int) ([]task.Recurrence, []task.Task) {
	w.t.Helper()
	made, ticks := make([]task.Recurrence, n), make([]task.Task, n)
	w.inTx(func(ctx context.Context, tx *schedule.Tx) (err error) {
		for i := range n {
			spec := kind.Recurring(fmt.Sprintf("owner%d", i), payload{Word: fmt.Sprint(i)})
			if made[i], err = tx.Recur(ctx, "meals", weekly, spec, policy); err != nil {
				return err
			}
			if ticks[i], err = tx.Reschedule(ctx, made[i].Newest, task.In(0)); err != nil {
				return err
			}
		}
		return nil
	})
	return made, ticks
}

func (w *world) recurrence(id task.ID) task.Recurrence {
	w.t.Helper()
	rows, err := w.store.GetRecurrences(context.WithoutCancel(w.t.Context()), w.store.DB(), []task.ID{id})
	pipelinetest.Must(w.t, err)
	if len(rows) != 1 {
		w.t.Fatalf("recurrence %s: got %d rows", id, len(rows))
	}
	return rows[0]
}

// wantNext holds the recurrence to one pending task: of the tick after the first one, which was put.
func (w *world) wantNext(r task.Recurrence) {
	w.t.Helper()
	after := w.recurrence(r.ID)
	next := w.store.Row(after.Newest)
	id, tick, _ := next.Tick()
	want(w.t, "recurrence of the next task", id, r.ID)
	want(w.t, "next tick", tick, r.DueAt.Add(7*24*time.Hour))
	want(w.t, "state of the next task", next.State, task.Pending)
	want(w.t, "puts of the next task", len(w.index.PutsOf(next.ID)), 1)
	want(w.t, "pending tasks", w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE owner = ? AND state = 0", r.Owner), 1)
}

// Whatever ends a tick's task, the next one stands when its transaction has committed.
func TestEachEndMakesTheNextTick(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind   task.Kind[payload]
		run    func(ctx context.Context, tx *worker.Tx, t worker.Task[payload]) error
		result string
		state  task.State
	}{
		"done":      {meal, effect, "done", task.Done},
		"discarded": {meal, func(context.Context, *worker.Tx, worker.Task[payload]) error { return worker.Discard(errSick) }, "dead", task.Dead},
		"dead": {
			task.NewKind[payload]("meal", task.MaxAttempts(1)),
			func(context.Context, *worker.Tx, worker.Task[payload]) error { return errSick }, "dead", task.Dead,
		},
		"a statement on tasks": {meal, func(ctx context.Context, tx *worker.Tx, t worker.Task[payload]) error {
			_, err := tx.Get(ctx, t.ID)
			return err
		}, "done", task.Done},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databases(t, func(t *testing.T, w *world) {
				mux := worker.NewMux()
				worker.Handle(mux, c.kind, c.run)
				made, ticks := w.recur(c.kind, recur.Policy{}, 1)
				got := w.pass(w.worker(mux, engine.Config{}), ticks...)
				want(t, fmt.Sprintf("result (%v)", got[ticks[0].ID].Err), got[ticks[0].ID].Result, c.result)
				want(t, "state", w.store.Row(ticks[0].ID).State, c.state)
				w.wantNext(made[0])
			})
		})
	}
}

// A tick that is skipped, because it is too late for its kind, is followed like any other.
func TestSkippedTickIsFollowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fresh := task.NewKind[payload]("meal", task.CatchUpWindow(time.Hour))
	mux := worker.NewMux()
	worker.Handle(mux, fresh, effect)
	made, ticks := w.recur(fresh, recur.Policy{}, 1)
	w.store.Exec("UPDATE duetime_tasks SET due_at = due_at - 7200000, run_at = due_at WHERE id = ?", ticks[0].ID[:])
	w.store.Exec("UPDATE duetime_tasks SET run_at = due_at WHERE id = ?", ticks[0].ID[:])
	got := w.pass(w.worker(mux, engine.Config{}), w.store.Row(ticks[0].ID))
	want(t, "result", got[ticks[0].ID].Result, "skipped")
	w.wantNext(made[0])
}

// A failing tick is not followed while it is retried: it is the recurrence's one pending task.
func TestFailedTickIsNotFollowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(context.Context, *worker.Tx, worker.Task[payload]) error { return errSick })
	made, ticks := w.recur(meal, recur.Policy{}, 1)
	w.pass(w.worker(mux, engine.Config{}), ticks...)
	after := w.recurrence(made[0].ID)
	want(t, "newest task", after.Newest, ticks[0].ID)
	want(t, "the first attempt is noted", after.BeganAt.IsZero(), false)
	want(t, "pending tasks", w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 0"), 1)
}

// A batch of ticks makes the next ones together, in few statements.
func TestBatchOfTicks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.HandleBatch(mux, meal, func(ctx context.Context, tx *worker.Tx, ts []worker.Task[payload]) error {
		for _, tk := range ts {
			if err := effect(ctx, tx, tk); err != nil {
				return err
			}
		}
		return nil
	})
	made, ticks := w.recur(meal, recur.Policy{}, 50)
	w.pass(w.worker(mux, engine.Config{}), ticks...)
	for i, r := range made {
		want(t, "effects", w.effects(ticks[i].ID), 1)
		w.wantNext(r)
	}
	want(t, "ticks counted", w.metric("duetime_worker_recurrence_ticks_total", "kind", "meal", "outcome", "made"), 50)
}

// Where overlaps are allowed, the next task stands while the handler runs, and nothing keeps it from running.
func TestOverlapIsAllowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var seen []task.ID
	mux := worker.NewMux()
	var other *engine.Worker
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		seen = append(seen, tk.ID)
		if len(seen) > 1 {
			return effect(ctx, tx, tk)
		}
		id, _, _ := tk.Tick()
		next := w.recurrence(id).Newest
		want(t, "a later task is the newest", next != tk.ID, true)
		w.store.Exec("UPDATE duetime_tasks SET due_at = created_at, run_at = created_at, version = version + 1 WHERE id = ?", next[:])
		got := w.pass(other, w.store.Row(next)) // beside this handler
		want(t, fmt.Sprintf("result of the next one (%v)", got[next].Err), got[next].Result, "done")
		return effect(ctx, tx, tk)
	})
	other = w.worker(mux, engine.Config{})
	made, ticks := w.recur(meal, recur.Policy{Overlap: recur.OverlapAllow}, 1)
	got := w.pass(w.worker(mux, engine.Config{}), ticks...)
	want(t, fmt.Sprintf("result (%v)", got[ticks[0].ID].Err), got[ticks[0].ID].Result, "done")
	want(t, "tasks run", len(seen), 2)
	want(t, "effects", w.store.Number("SELECT COUNT(*) FROM effects"), 2)
	want(t, "tasks made", w.recurrence(made[0].ID).Made, 3)
	want(t, "pending tasks", w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 0"), 1)
}

// A stop and a pause take back all pending tasks: also the one that waits for its retry beside the next one.
func TestHaltTakesBackOverlaps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(context.Context, *worker.Tx, worker.Task[payload]) error { return errSick })
	_, ticks := w.recur(meal, recur.Policy{Overlap: recur.OverlapAllow}, 3)
	w.pass(w.worker(mux, engine.Config{}), ticks...)
	pending := func(owner string) int {
		return w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE owner = ? AND state = 0", owner)
	}
	want(t, "pending tasks before", pending("owner0")+pending("owner1")+pending("owner2"), 6)
	w.inTx(func(ctx context.Context, tx *schedule.Tx) error {
		_, err := tx.StopRecurrence(ctx, "owner0", "meals")
		return err
	})
	w.inTx(func(ctx context.Context, tx *schedule.Tx) error {
		_, err := tx.PauseRecurrence(ctx, "owner1", "meals", "")
		return err
	})
	want(t, "pending tasks of the stopped one", pending("owner0"), 0)
	want(t, "pending tasks of the paused one", pending("owner1"), 0)
	want(t, "pending tasks of the third one", pending("owner2"), 2)
}

// Ticks that fail while a stop waits for another task of the owner's are taken back too, also those that are the newest no more.
func TestStopTakesBackOverlapsMadeMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(context.Context, *worker.Tx, worker.Task[payload]) error { return errSick })
	wk := w.worker(mux, engine.Config{})
	var waits, fast task.Recurrence
	w.inTx(func(ctx context.Context, tx *schedule.Tx) (err error) {
		if waits, err = tx.Recur(ctx, "waits", weekly, meal.Recurring("ann", payload{}), recur.Policy{}); err != nil {
			return err
		}
		fast, err = tx.Recur(ctx, "fast", weekly, meal.Recurring("ann", payload{}), recur.Policy{Overlap: recur.OverlapAllow})
		return err
	})
	holder, err := w.store.Begin(t.Context())
	pipelinetest.Must(t, err)
	_, err = w.store.Lock(t.Context(), holder, []task.ID{waits.Newest})
	pipelinetest.Must(t, err)
	stopped := make(chan error, 1)
	go func() {
		stopped <- w.tryTx(func(ctx context.Context, tx *schedule.Tx) error {
			if _, err := tx.ExecContext(ctx, "SET innodb_lock_wait_timeout = 60"); err != nil {
				return err
			}
			_, err := tx.StopRecurrences(ctx, "ann")
			return err
		})
	}()
	pipelinetest.Await(t, "the lock", func() bool { return pipelinetest.LockWaits(t, w.store.DB()) > 0 })
	for range 2 {
		newest := w.recurrence(fast.ID).Newest
		w.store.Exec("UPDATE duetime_tasks SET due_at = created_at, run_at = created_at, version = version + 1 WHERE id = ?", newest[:])
		w.pass(wk, w.store.Row(newest))
	}
	pipelinetest.Must(t, holder.Rollback())
	pipelinetest.Must(t, <-stopped)
	want(t, "pending tasks", w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 0"), 0)
}

// A handler may stop the recurrence whose task it runs, or give it another definition: its own task goes on to its end.
func TestHandlerChangesItsRecurrence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stopping, redefining := task.NewKind[payload]("stopping"), task.NewKind[payload]("redefining")
	mux := worker.NewMux()
	worker.Handle(mux, stopping, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		_, err := tx.StopRecurrence(ctx, tk.Owner, "meals")
		return err
	})
	worker.Handle(mux, redefining, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		_, err := tx.Recur(ctx, "meals", weekly, redefining.Recurring(tk.Owner, payload{Word: "new"}), recur.Policy{})
		return err
	})
	wk := w.worker(mux, engine.Config{})
	stopped, ticks := w.recur(stopping, recur.Policy{}, 1)
	w.pass(wk, ticks...)
	want(t, "state of the task", w.store.Row(ticks[0].ID).State, task.Done)
	want(t, "state of the recurrence", w.recurrence(stopped[0].ID).State, task.RecurrenceStopped)
	want(t, "pending tasks", w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 0"), 0)

	made, ticks := w.recur(redefining, recur.Policy{}, 1)
	w.pass(wk, ticks...)
	want(t, "state of the task", w.store.Row(ticks[0].ID).State, task.Done)
	next := w.store.Row(w.recurrence(made[0].ID).Newest)
	want(t, "payload of the next task", string(next.Payload), `{"word":"new"}`)
}

// While a tick's task runs, which keeps its recurrence locked, RunRecurrence doesn't wait, nor does a cancel of what it has made.
// Another definition waits, and says why.
func TestCallsBesideARunningTick(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var ran, cancelled, redefined error
	var extra task.Task
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		ran = w.tryTx(func(ctx context.Context, tx *schedule.Tx) (err error) {
			extra, err = tx.RunRecurrence(ctx, tk.Owner, "meals")
			return err
		})
		cancelled = w.tryTx(func(ctx context.Context, tx *schedule.Tx) error {
			_, err := tx.Cancel(ctx, extra.ID)
			return err
		})
		redefined = w.tryTx(func(ctx context.Context, tx *schedule.Tx) error {
			_, err := tx.Recur(ctx, "meals", weekly, meal.Recurring(tk.Owner, payload{Word: "new"}), recur.Policy{})
			return err
		})
		return effect(ctx, tx, tk)
	})
	made, ticks := w.recur(meal, recur.Policy{}, 1)
	w.pass(w.worker(mux, engine.Config{}), ticks...)
	pipelinetest.Must(t, ran)
	pipelinetest.Must(t, cancelled)
	want(t, fmt.Sprintf("another definition is refused as running: %v", redefined), errors.Is(redefined, task.ErrRunning), true)
	want(t, "state of the extra task", w.store.Row(extra.ID).State, task.Cancelled)
	w.wantNext(made[0])
}

// A definition that this program can't read, for a reason that is longer than a note, pauses its recurrence; the task takes effect.
func TestUnreadableDefinitionWithALongReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	made, ticks := w.recur(meal, recur.Policy{}, 1)
	w.store.Exec("UPDATE duetime_recurrences SET timetable = ?", "cron UTC "+strings.Repeat("1,", 100)+"1!2 8 * * *")
	w.pass(w.worker(mux, engine.Config{}), ticks...)
	want(t, "effects", w.effects(ticks[0].ID), 1)
	r := w.recurrence(made[0].ID)
	want(t, "state of the recurrence", r.State, task.RecurrencePaused)
	want(t, "the note is cut", len(r.Note), transition.MaxNote)
}

// A worker whose transaction is rolled back has made no tick; the next one makes it once.
func TestRolledBackTick(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	made, ticks := w.recur(meal, recur.Policy{}, 1)
	holder, err := w.store.Begin(t.Context())
	pipelinetest.Must(t, err)
	_, err = w.store.LockRecurrences(t.Context(), holder, []task.ID{made[0].ID})
	pipelinetest.Must(t, err)
	got := w.pass(w.worker(mux, engine.Config{}), ticks...)
	want(t, "result while the recurrence is locked", got[ticks[0].ID].Result, "")
	want(t, "effects while the recurrence is locked", w.effects(ticks[0].ID), 0)
	pipelinetest.Must(t, holder.Rollback())
	got = w.pass(w.worker(mux, engine.Config{}), ticks...)
	want(t, "result", got[ticks[0].ID].Result, "done")
	w.wantNext(made[0])
}
