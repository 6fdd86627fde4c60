package schedule_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// lines returns the names of the events in an operation's history.
func (w *world) lines(t testing.TB, id task.ID) (names []string) {
	t.Helper()
	events, err := w.store.History(t.Context(), id, 10)
	pipelinetest.Must(t, err)
	for _, e := range events {
		names = append(names, e.Actor+" "+e.Name)
	}
	return names
}

// An operation commits, or vanishes, with the caller's transaction.
func TestBulk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	filter := task.Filter{Kind: meal.Name()}
	wanted := task.Operation{Verb: task.VerbShift, By: 2 * time.Hour, Filter: filter, Rate: 100, Matched: 7}
	errUndo := errors.New("undo")
	var undone task.ID
	err := w.InTx(ctx, func(tx *schedule.Tx) error {
		o, err := tx.Bulk(ctx, wanted)
		undone = o.ID
		return errors.Join(err, errUndo)
	})
	if !errors.Is(err, errUndo) {
		t.Fatal(err)
	}
	if _, err := w.Operation(ctx, undone); !errors.Is(err, task.ErrNoOperation) || len(w.lines(t, undone)) != 0 {
		t.Errorf("of a transaction that was rolled back: %v, %v", err, w.lines(t, undone))
	}
	o, err := w.Bulk(ctx, wanted)
	pipelinetest.Must(t, err)
	wanted.ID, wanted.Actor, wanted.CreatedAt, wanted.UpdatedAt = o.ID, protocol.ActorService, o.CreatedAt, o.CreatedAt
	got, err := w.Operation(ctx, o.ID)
	if d := cmp.Diff(wanted, got); d != "" || err != nil || o.CreatedAt.IsZero() {
		t.Errorf("read back: %v (-want +got):\n%s", err, d)
	}
	for _, change := range []struct {
		do    func() (task.Operation, error)
		state task.OperationState
	}{
		{func() (task.Operation, error) { return w.PauseOperation(ctx, o.ID) }, task.OperationPaused},
		{func() (task.Operation, error) { return w.PauseOperation(ctx, o.ID) }, task.OperationPaused},
		{func() (task.Operation, error) { return w.ResumeOperation(ctx, o.ID) }, task.OperationRunning},
		{func() (task.Operation, error) { return w.CancelOperation(ctx, o.ID) }, task.OperationCancelled},
	} {
		changed, err := change.do()
		pipelinetest.Must(t, err)
		if got, err := w.Operation(ctx, o.ID); changed.State != change.state || got.State != change.state || err != nil {
			t.Errorf("changed to %v, read as %v, %v; want %v", changed.State, got.State, err, change.state)
		}
	}
	want := []string{"service begun", "service paused", "service resumed", "service stopped"}
	if d := cmp.Diff(want, w.lines(t, o.ID)); d != "" {
		t.Errorf("its history (-want +got):\n%s", d)
	}
	if _, err := w.CancelOperation(ctx, o.ID); !errors.Is(err, task.ErrOperationOver) {
		t.Errorf("cancelled twice: %v", err)
	}
	if _, err := w.PauseOperation(ctx, task.NewID()); !errors.Is(err, task.ErrNoOperation) {
		t.Errorf("an unknown one: %v", err)
	}
	all, err := w.Operations(ctx)
	if err != nil || len(all) != 1 || all[0].ID != o.ID {
		t.Errorf("listed: %+v, %v", all, err)
	}
	var field *task.FieldError
	if _, err := w.Bulk(ctx, task.Operation{Verb: task.VerbCancel}); !errors.As(err, &field) || field.Field != "filter" {
		t.Errorf("without a filter: %v", err)
	}
	if _, _, err := w.BulkPreview(ctx, task.Operation{Verb: task.VerbCancel}); !errors.As(err, &field) {
		t.Errorf("preview without a filter: %v", err)
	}
}

// With an id of the caller's, an operation is made once, however often the call comes, and all calls answer it as it stands.
func TestBulkIsRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	wanted := task.Operation{
		ID: task.ID{1, 2, 3}, Verb: task.VerbShift, By: time.Hour,
		Filter: task.Filter{Kind: meal.Name(), DueBefore: time.Now(), Labels: map[string]string{"realm": "7"}},
	}
	var calls errgroup.Group
	for range 8 {
		calls.Go(func() error {
			_, err := w.Bulk(ctx, wanted)
			return err
		})
	}
	pipelinetest.Must(t, calls.Wait())
	ended, err := w.CancelOperation(ctx, wanted.ID)
	pipelinetest.Must(t, err)
	again := wanted
	again.Matched, again.Rate = 7, 100 // of a later preview
	got, err := w.Bulk(ctx, again)
	if d := cmp.Diff(ended, got); d != "" || err != nil {
		t.Errorf("repeated after its end: %v (-want +got):\n%s", err, d)
	}
	for name, change := range map[string]func(o *task.Operation){
		"verb":   func(o *task.Operation) { o.Verb, o.By = task.VerbCancel, 0 },
		"by":     func(o *task.Operation) { o.By = -time.Hour },
		"reach":  func(o *task.Operation) { o.Recurrences = true },
		"kind":   func(o *task.Operation) { o.Filter.Kind = "" },
		"window": func(o *task.Operation) { o.Filter.DueBefore = o.Filter.DueBefore.Add(time.Second) },
		"labels": func(o *task.Operation) { o.Filter.Labels = map[string]string{"realm": "8"} },
	} {
		other := wanted
		change(&other)
		if _, err := w.Bulk(ctx, other); !errors.Is(err, task.ErrOperationTaken) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	if d := cmp.Diff([]string{"service begun", "service stopped"}, w.lines(t, wanted.ID)); d != "" {
		t.Errorf("its history (-want +got):\n%s", d)
	}
}

func TestBulkPreview(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 12 {
		_, err := w.Schedule(t.Context(), meal.New("ann", i, task.In(time.Duration(12-i)*time.Hour)))
		pipelinetest.Must(t, err)
	}
	_, err := w.Schedule(t.Context(), meal.New("bob", 1, task.In(time.Hour)))
	pipelinetest.Must(t, err)
	o := task.Operation{Verb: task.VerbCancel, Filter: task.Filter{Owner: "ann"}}
	n, sample, err := w.BulkPreview(t.Context(), o)
	if n != 12 || len(sample) != 10 || err != nil || sample[0].Owner != "ann" || !sample[0].DueAt.Before(sample[9].DueAt) {
		t.Errorf("%d tasks, %v, sample %+v", n, err, sample)
	}
	o.Filter.Owner = "eve"
	if n, sample, err := w.BulkPreview(t.Context(), o); n != 0 || len(sample) != 0 || err != nil {
		t.Errorf("of nobody: %d tasks, %v, sample %+v", n, err, sample)
	}
}
