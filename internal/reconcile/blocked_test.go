package reconcile

import (
	"errors"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// block blocks the owner at w.now, as if the tasks that are there had been committed later.
func (w *world) block(t testing.TB, owner string) {
	t.Helper()
	w.alter(t, w.rows.DB(), "INSERT INTO duetime_blocks (owner, at, actor) VALUES (?, ?, 'ann@host')", owner, w.now.UnixMilli())
}

func TestLeftoversOfBlockedOwnersAreCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	r, tick := w.recur(t, "ann")
	one, later := w.timer(t, "ann", "timer", time.Hour), w.timer(t, "ann", "timer", 2*time.Hour)
	others, long := w.timer(t, "bob", "timer", time.Hour), w.timer(t, "carl", "timer", time.Hour)
	rows := w.insert(t, one, later, others, long)
	w.put(t, append(rows, tick)...)
	w.block(t, "ann")
	w.alter(t, w.rows.DB(), "INSERT INTO duetime_blocks (owner, at, actor) VALUES ('carl', 1, 'ann@host')")

	w.run(t, (&blocked{r: w.Reconciler}).pass)
	for i, want := range []task.State{task.Cancelled, task.Cancelled, task.Pending, task.Pending, task.Cancelled} {
		if got := w.as(t, append(rows, tick)[i:i+1])[0]; got.State != want {
			t.Errorf("the %d. task, of %s, is %v, want %v", i+1, got.Owner, got.State, want)
		}
	}
	got, err := w.rows.GetRecurrences(t.Context(), w.rows.DB(), []task.ID{r.ID})
	pipelinetest.Must(t, err)
	if got[0].State != task.RecurrenceStopped {
		t.Errorf("the recurrence is %v, want it stopped", got[0].State)
	}
	w.wantTruth(t)
	lines, err := w.rows.History(t.Context(), one.ID, 10)
	pipelinetest.Must(t, err)
	if len(lines) != 1 || lines[0].Name != protocol.EventCancelled || lines[0].Actor != "daemon" {
		t.Errorf("history is %+v, want one line by the daemon", lines)
	}
}

// A retry leaves tasks dead whose owner is blocked, and goes on with the others.
func TestOperationMeetsBlockedOwners(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	rows := w.insert(t, w.timer(t, "ann", "timer", time.Hour), w.timer(t, "bob", "timer", time.Hour))
	for i, row := range rows {
		rows[i] = w.save(t, transition.Discard(row, errors.New("enough"), row.CreatedAt))
	}
	w.block(t, "ann")
	o := w.operate(t, task.Operation{Verb: task.VerbRetry, Filter: task.Filter{Kind: "timer"}})
	if done := w.finish(t, o.ID); done.Changed != 1 || done.Unchanged != 1 {
		t.Errorf("done: %+v, want 1 changed and 1 left alone", done)
	}
	if got := w.as(t, rows); got[0].State != task.Dead || got[1].State != task.Pending {
		t.Errorf("ann's is %v and bob's %v, want dead and pending", got[0].State, got[1].State)
	}
}
