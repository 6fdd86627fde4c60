package reconcile

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// An operation with a limit changes so many tasks, the first ones by their ids, however its pages end. What it leaves alone does not count.
func TestOperationWithALimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	first, taken := w.timer(t, "holder", "timer", time.Hour), w.timer(t, "holder", "timer", 2*time.Hour)
	first.DedupKey, taken.DedupKey = "kbreakfast", "kbreakfast"
	w.save(t, transition.Discard(w.insert(t, first)[0], errors.New("enough"), first.CreatedAt))
	w.put(t, w.insert(t, taken)...)
	rows := w.timers(t, "timer", 60)
	w.discard(t, rows, 2) // those of the kind
	for _, limit := range []int{7, 1, 100} {
		o := w.operate(t, task.Operation{Verb: task.VerbRetry, Filter: task.Filter{Kind: "timer"}, Rate: 3, Limit: limit})
		var matching []task.Task
		for _, row := range w.as(t, rows) {
			if transition.OperationMatches(o, row) {
				matching = append(matching, row)
			}
		}
		slices.SortFunc(matching, func(a, b task.Task) int { return a.ID.Compare(b.ID) })
		want := min(limit, len(matching))
		done := w.finish(t, o.ID)
		if done.State != task.OperationDone || int(done.Changed) != want || done.Unchanged != 1 {
			t.Errorf("limit %d: %+v, want %d changed and 1 left alone", limit, done, want)
		}
		for i, row := range w.as(t, matching) {
			if retried := row.State == task.Pending; retried != (i < want) {
				t.Errorf("limit %d: task %d is %s", limit, i, row.State)
			}
		}
	}
}

// A task that dies once more after the operation's moment stays dead, and so does one that no list names.
func TestOperationOfTheDeadOfAMoment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	rows := w.timers(t, "timer", 40)
	w.discard(t, rows, 2)
	moment := rows[len(rows)-2].FinishedAt.Add(time.Millisecond)
	for i := 0; i < len(rows); i += 8 {
		rows[i].FinishedAt = moment
		w.alter(t, w.rows.DB(), "UPDATE duetime_tasks SET finished_at = ? WHERE id = ?", moment.UnixMilli(), rows[i].ID[:])
	}
	var named []task.ID
	for i := 0; i < len(rows); i += 3 {
		named = append(named, rows[i].ID)
	}
	o := w.operate(t, task.Operation{Verb: task.VerbDiscard, Filter: task.Filter{IDs: named, DiedBefore: moment}})
	if done := w.finish(t, o.ID); done.Changed != 5 || done.Looked != 5 {
		t.Errorf("done: %+v, want 5 changed", done)
	}
	w.wantOperated(t, o, rows)
}
