package reconcile

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// recur makes an hourly recurrence whose task was due a minute ago, on the database's clock, as if it had been made long ago.
func (w *world) recur(t testing.TB, owner string) (task.Recurrence, task.Task) {
	t.Helper()
	tx, err := w.rows.Begin(t.Context())
	pipelinetest.Must(t, err)
	defer func() { _ = tx.Rollback() }()
	spec := task.NewKind[int]("pet.meal_finished").Recurring(owner, 1)
	r, err := schedule.NewTx(tx, w.rows).Recur(t.Context(), "meals", recur.Every(time.Hour), spec, recur.Policy{})
	pipelinetest.Must(t, err)
	w.now = value(t)(w.rows.Now(t.Context(), tx))
	past := w.now.Add(-time.Minute).UnixMilli()
	w.alter(t, tx, "UPDATE duetime_tasks SET run_at = ?, due_at = ?, updated_at = ? WHERE id = ?", past, past, past, r.Newest[:])
	w.alter(t, tx, "UPDATE duetime_recurrences SET due_at = ?, updated_at = ? WHERE id = ?", past, past, r.ID[:])
	pipelinetest.Must(t, tx.Commit())
	rows, err := w.rows.Get(t.Context(), nil, []task.ID{r.Newest})
	pipelinetest.Must(t, err)
	return r, rows[0]
}

func value(t testing.TB) func(time.Time, error) time.Time {
	return func(v time.Time, err error) time.Time {
		t.Helper()
		pipelinetest.Must(t, err)
		return v
	}
}

func (w *world) alter(t testing.TB, q sqlx.ExecerContext, query string, args ...any) {
	t.Helper()
	_, err := q.ExecContext(context.WithoutCancel(t.Context()), query, args...)
	pipelinetest.Must(t, err)
}

// manyRecur makes n hourly recurrences whose tasks are pending and were due at this moment.
func (w *world) manyRecur(t testing.TB, n int, due time.Time) {
	t.Helper()
	tx, err := w.rows.Begin(t.Context())
	pipelinetest.Must(t, err)
	defer func() { _ = tx.Rollback() }()
	ticks := make([]task.Task, n)
	for i := range ticks {
		spec := task.NewKind[int]("pet.meal_finished").Recurring(fmt.Sprint("owner ", i), 1)
		r, err := spec.Recurrence("meals", recur.Every(time.Hour), recur.Policy{}, due.Add(-time.Hour))
		pipelinetest.Must(t, err)
		r, ticks[i] = transition.BeginRecurrence(r, due.Add(-time.Hour))
		r.DueAt, ticks[i].DueAt, ticks[i].RunAt = due, due, due
		pipelinetest.Must(t, w.rows.InsertRecurrence(t.Context(), tx, r))
	}
	for some := range slices.Chunk(ticks, 500) {
		_, err = w.rows.Insert(t.Context(), tx, some)
		pipelinetest.Must(t, err)
	}
	pipelinetest.Must(t, tx.Commit())
}

// A page full of recurrences whose tasks are pending, as while workers are away, does not hide those behind it.
func TestRecurrenceLeftBehindAFullPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	r, row := w.recur(t, "ann")
	w.manyRecur(t, page, row.DueAt.Add(-time.Minute))
	w.alter(t, w.rows.DB(), "DELETE FROM duetime_tasks WHERE id = ?", row.ID[:])
	pass := &recurrences{r: w.Reconciler}
	for range 3 {
		w.run(t, pass.pass)
	}
	got, _, err := w.rows.Recurrence(t.Context(), w.rows.DB(), "ann", "meals")
	pipelinetest.Must(t, err)
	if got.Newest == r.Newest || got.Newest.IsZero() {
		t.Errorf("the newest task is %s, want one after %s", got.Newest, r.Newest)
	}
}

// A recurrence whose task has ended by SQL of somebody else, or has vanished, gets the task of its next tick, once. One whose
// task is pending, or has ended a moment ago, is left as it is.
func TestRecurrencesLeftBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	for name, c := range map[string]struct {
		harm   string
		ended  time.Duration // before now
		mended bool
	}{
		"cancelled":     {"UPDATE duetime_tasks SET state = 2, updated_at = ? WHERE id = ?", time.Minute, true},
		"deleted":       {"DELETE FROM duetime_tasks WHERE updated_at > ? AND id = ?", 2 * time.Minute, true},
		"pending":       {"UPDATE duetime_tasks SET updated_at = ? WHERE id = ?", time.Minute, false},
		"ended a while": {"UPDATE duetime_tasks SET state = 1, updated_at = ? WHERE id = ?", 0, false},
	} {
		r, row := w.recur(t, name)
		w.alter(t, w.rows.DB(), c.harm, w.now.Add(-c.ended).UnixMilli(), row.ID[:])
		pass := &recurrences{r: w.Reconciler}
		w.run(t, pass.pass)
		w.run(t, pass.pass)
		got, _, err := w.rows.Recurrence(t.Context(), w.rows.DB(), name, "meals")
		pipelinetest.Must(t, err)
		if mended := got.Newest != r.Newest; mended != c.mended {
			t.Errorf("%s: mended %v, want %v", name, mended, c.mended)
			continue
		}
		if !c.mended {
			w.alter(t, w.rows.DB(), "DELETE FROM duetime_recurrences WHERE id = ?", r.ID[:]) // out of the way of the others
			continue
		}
		next, err := w.rows.Get(t.Context(), nil, []task.ID{got.Newest})
		pipelinetest.Must(t, err)
		id, tick, ok := next[0].Tick()
		if !ok || id != r.ID || !tick.After(r.DueAt) || got.Made != 2 {
			t.Errorf("%s: followed by the tick of %v, of %d made", name, tick, got.Made)
		}
		w.wantStanding(t, name, next[0], both(next[0]))
	}
}
