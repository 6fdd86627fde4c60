package schedule_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// many schedules n tasks of the owner, several of each millisecond.
func (w *world) many(t *testing.T, owner string, n int) []task.ID {
	t.Helper()
	var ids []task.ID
	due := time.Now().Add(time.Hour).Truncate(time.Second)
	for n > 0 {
		specs := make([]task.Spec, min(n, task.MaxPerCall))
		for i := range specs {
			specs[i] = meal.New(owner, i, task.At(due.Add(time.Duration(i/300)*time.Millisecond)))
		}
		pipelinetest.Must(t, w.InTx(t.Context(), func(tx *schedule.Tx) error {
			made, err := tx.ScheduleMany(t.Context(), specs)
			for _, one := range made {
				ids = append(ids, one.ID)
			}
			return err
		}))
		n -= len(specs)
	}
	return ids
}

type lister func(ctx context.Context, owner, kind string, p schedule.Page) (schedule.TaskPage, error)

// walk lists all by pages.
func walk(t *testing.T, list lister, owner, kind string, limit int) (ids []task.ID) {
	t.Helper()
	for p := (schedule.Page{Limit: limit}); ; {
		page, err := list(t.Context(), owner, kind, p)
		pipelinetest.Must(t, err)
		if len(page.Tasks) > limit {
			t.Errorf("a page of %d tasks, want %d at most", len(page.Tasks), limit)
		}
		for _, e := range page.Tasks {
			ids = append(ids, e.ID)
		}
		if p.After = page.Next; p.After == "" {
			return ids
		}
	}
}

func sameIDs(t *testing.T, what string, got, want []task.ID) {
	t.Helper()
	got, want = slices.SortedFunc(slices.Values(got), task.ID.Compare), slices.SortedFunc(slices.Values(want), task.ID.Compare)
	if !slices.Equal(got, want) {
		t.Errorf("%s: %d tasks, want %d, each once", what, len(got), len(want))
	}
}

func TestPagesOfAnOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := w.many(t, "ann", 2500)
	w.make(t, "bob")
	w.away = true
	for _, limit := range []int{7, 250, 1000} {
		sameIDs(t, "pages", walk(t, w.TasksPage, "ann", "", limit), ids)
	}
	sameIDs(t, "of the kind", walk(t, w.TasksPageFromDB, "ann", meal.Name(), 100), ids)
	sameIDs(t, "of no kind", walk(t, w.TasksPage, "ann", "other.kind", 100), nil)
	sameIDs(t, "of nobody", walk(t, w.TasksPage, "nobody", "", 100), nil)
	for name, p := range map[string]schedule.Page{
		"limit too large": {Limit: 1001}, "limit below 1": {Limit: -1}, "foreign cursor": {After: "x"}, "half a cursor": {After: "d12.ab"},
	} {
		var field *task.FieldError
		if _, err := w.TasksPage(t.Context(), "ann", "", p); !errors.As(err, &field) {
			t.Errorf("%s: %v, want a FieldError", name, err)
		}
	}
}

// A page whose last entry is none of ours ends where that entry stands: the next one, of the database, begins there.
func TestPageAfterForeignEntry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.make(t, "ann")
	later, err := w.Schedule(t.Context(), meal.New("ann", 2, task.In(2*time.Hour)))
	pipelinetest.Must(t, err)
	junk := protocol.Entry{Err: errors.New("junk"), Score: protocol.ScoreOf(task.Task{RunAt: first.RunAt.Add(time.Minute), Version: 1})}
	w.owned = []protocol.Entry{{ID: first.ID, Kind: first.Kind, Owner: "ann", Score: protocol.ScoreOf(first)}, junk}
	w.next = "7"
	page, err := w.TasksPage(t.Context(), "ann", "", schedule.Page{Limit: 2})
	pipelinetest.Must(t, err)
	if len(page.Tasks) != 1 || page.Tasks[0].ID != first.ID {
		t.Errorf("the first page is %+v", page)
	}
	w.away = true
	page, err = w.TasksPage(t.Context(), "ann", "", schedule.Page{Limit: 2, After: page.Next})
	pipelinetest.Must(t, err)
	if len(page.Tasks) != 1 || page.Tasks[0].ID != later.ID {
		t.Errorf("the second page is %+v, want the later task alone", page)
	}
}

// However many tasks an owner has, they can be cancelled.
func TestCancelOwnerGoesOnInPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := w.many(t, "ann", 2500)
	other := w.make(t, "bob")
	err := w.InTx(t.Context(), func(tx *schedule.Tx) error {
		_, err := tx.CancelOwner(t.Context(), "ann", "")
		return err
	})
	var field *task.FieldError
	if !errors.As(err, &field) {
		t.Errorf("in one transaction: %v, want a FieldError", err)
	}
	if n, err := w.CancelOwner(t.Context(), "ann", "other.kind"); n != 0 || err != nil {
		t.Errorf("of no kind: %d, %v", n, err)
	}
	n, err := w.CancelOwner(t.Context(), "ann", meal.Name())
	if n != len(ids) || err != nil {
		t.Errorf("cancelled %d of %d, %v", n, len(ids), err)
	}
	sameIDs(t, "left", walk(t, w.TasksPageFromDB, "ann", "", 1000), nil)
	if w.store.Row(other.ID).State != task.Pending {
		t.Error("a task of another owner was cancelled")
	}
}
