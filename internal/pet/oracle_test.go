package pet_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/pet"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

func (w *world) plant(event string, id task.ID, due, at time.Time) {
	w.t.Helper()
	w.store.Exec("INSERT INTO pet_journal (pet_id, owner, event, task_id, version, due_at_ms, at_ms) VALUES (1, 'ann', ?, ?, 1, ?, ?)",
		event, id.String(), due.UnixMilli(), at.UnixMilli())
}

// kept is the retention in these tests.
const kept = time.Hour

func TestAudit(t *testing.T) {
	t.Parallel()
	meal := func(w *world) task.ID {
		id := w.create("ann").ID
		fed := w.act(id, "feed").Meal
		w.due(w.now(), fed.TaskID)
		return fed.TaskID
	}
	eaten := func(w *world) task.ID {
		id := meal(w)
		w.fire(id)
		return id
	}
	for _, c := range []struct {
		name  string
		plant func(w *world)
		want  pet.Findings
	}{
		{"all is well", func(w *world) {
			eaten(w)
			meal(w) // pending
			w.act(w.create("ann").ID, "feed")
			_, err := w.Cancel(w.t.Context(), meal(w)) // by an operator
			pipelinetest.Must(w.t, err)
			id := w.create("ann").ID
			w.act(id, "feed")
			w.act(id, "cancel")
			dead := meal(w)
			w.store.Exec("UPDATE duetime_tasks SET state = 3 WHERE id = ?", dead[:])
			purged := eaten(w)
			w.store.Exec("DELETE FROM duetime_tasks WHERE id = ?", purged[:])
			w.plant("fed", task.NewID(), w.now(), w.now().Add(-2*kept)) // ended somehow, and was purged
		}, pet.Findings{}},
		{"lost: no row", func(w *world) {
			eaten(w)
			id := meal(w)
			w.store.Exec("DELETE FROM duetime_tasks WHERE id = ?", id[:])
		}, pet.Findings{Lost: 1}},
		{"lost: done without an effect", func(w *world) {
			eaten(w)
			id := meal(w)
			w.store.Exec("UPDATE duetime_tasks SET state = 1 WHERE id = ?", id[:])
		}, pet.Findings{Lost: 1}},
		{"lost: an auto-fed one", func(w *world) {
			w.plant("auto_fed", task.NewID(), w.now(), w.now())
		}, pet.Findings{Lost: 1}},
		{"duplicate", func(w *world) {
			eaten(w)
			w.plant("meal_finished", eaten(w), w.now(), w.now())
		}, pet.Findings{Duplicate: 1}},
		{"early", func(w *world) {
			eaten(w)
			due := w.now()
			w.plant("meal_finished", task.NewID(), due, due.Add(-time.Millisecond))
			w.plant("meal_finished", task.NewID(), due, due)
		}, pet.Findings{Early: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, start)
			c.plant(w)
			got, err := pet.Audit(t.Context(), w.DB(), kept, w.tasks)
			pipelinetest.Must(t, err)
			if got != c.want {
				t.Errorf("found %+v, want %+v", got, c.want)
			}
		})
	}
}

// A meal that ends during the audit is not lost.
func TestAuditLooksTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, start)
	id := w.act(w.create("ann").ID, "feed").Meal.TaskID
	w.due(w.now(), id)
	asked := 0
	got, err := pet.Audit(t.Context(), w.DB(), kept, func(ctx context.Context, ids []task.ID) ([]task.Task, error) {
		if asked++; asked == 1 {
			w.fire(id)
		}
		return w.tasks(ctx, ids)
	})
	pipelinetest.Must(t, err)
	if got != (pet.Findings{}) || asked == 0 {
		t.Errorf("found %+v after %d looks", got, asked)
	}
}

func TestJournalFigures(t *testing.T) {
	t.Parallel()
	w := newWorld(t, start)
	if there, err := pet.HasJournal(t.Context(), w.DB()); err != nil || !there {
		t.Errorf("journal: %v, %v", there, err)
	}
	now := w.now()
	early, late := task.NewID(), task.NewID()
	w.plant("fed", early, now.Add(time.Hour), now)
	w.plant("sped_up", early, now, now)
	w.plant("meal_finished", early, now, now.Add(30*time.Millisecond))
	w.plant("auto_fed", late, now, now.Add(time.Second)) // made after its due time, so that lag counts from then
	w.plant("meal_finished", late, now, now.Add(1010*time.Millisecond))
	w.plant("meal_cancelled", task.NewID(), now, now)
	firings, err := pet.Firings(t.Context(), w.DB())
	pipelinetest.Must(t, err)
	var lags []time.Duration
	for _, f := range firings {
		lags = append(lags, f.Lag())
	}
	if got := fmt.Sprint(lags); got != "[30ms 10ms]" {
		t.Errorf("lags %v", got)
	}
	events, err := pet.Events(t.Context(), w.DB())
	if want := (pet.EventCounts{Finished: 2, SpedUp: 1, Cancelled: 1, AutoFed: 1}); err != nil || events != want {
		t.Errorf("events %+v, %v; want %+v", events, err, want)
	}
}
