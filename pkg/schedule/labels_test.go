package schedule_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// labels returns the labels of tasks, as name=value, in the order of the tasks.
func (w *world) labels(t testing.TB, tasks ...task.Task) (all []string) {
	t.Helper()
	ids := protocol.IDs(tasks)
	found, err := w.store.Labels(t.Context(), ids)
	pipelinetest.Must(t, err)
	for _, id := range ids {
		all = append(all, protocol.LabelsText(found[id]))
	}
	return all
}

func TestLabels(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	hour, rome, gold := task.In(time.Hour), task.Label("city", "Rome"), task.Label("tier", "gold")
	single, err := w.Schedule(ctx, meal.New("ann", 1, hour, rome, gold))
	pipelinetest.Must(t, err)
	var many []task.Task
	same := meal.New("bob", 1, hour, rome)
	pipelinetest.Must(t, w.InTx(ctx, func(tx *schedule.Tx) (err error) {
		many, err = tx.ScheduleMany(ctx, []task.Spec{
			same, meal.New("bob", 1, hour),
			meal.New("bob", 1, hour, task.Key("k"), gold), meal.New("bob", 1, hour, task.Key("k"), rome), same,
			meal.New("bob", 1, hour, task.WithID(same.ID()), task.Label("city", "Bonn")),
		})
		return err
	}))
	if d := cmp.Diff([]string{"city=Rome tier=gold", "city=Rome", "", "tier=gold", "tier=gold", "city=Rome", "city=Rome"},
		w.labels(t, append([]task.Task{single}, many...)...)); d != "" {
		t.Errorf("labels (-want +got):\n%s", d)
	}
	if n := w.store.Number("SELECT COUNT(*) FROM duetime_labels"); n != 4 {
		t.Errorf("%d labels were written, want 4: some have no task", n)
	}
}

// Of several specs with one id, in one call or one transaction, the first makes the task.
func TestLabelsOfOneTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	hour := task.In(time.Hour)
	first, plain := meal.New("ann", 1, hour, task.Label("tier", "gold")), meal.New("ann", 1, hour)
	again := func(s task.Spec) task.Spec {
		return meal.New("ann", 1, hour, task.WithID(s.ID()), task.Label("tier", "tin"))
	}
	var made []task.Task
	pipelinetest.Must(t, w.InTx(ctx, func(tx *schedule.Tx) error {
		one, err := tx.Schedule(ctx, first)
		if err != nil {
			return err
		}
		if _, err := tx.Schedule(ctx, again(first)); err != nil {
			return err
		}
		more, err := tx.ScheduleMany(ctx, []task.Spec{plain, again(plain)})
		made = append([]task.Task{one}, more[0])
		return err
	}))
	if d := cmp.Diff([]string{"tier=gold", ""}, w.labels(t, made...)); d != "" {
		t.Errorf("labels (-want +got):\n%s", d)
	}
}

// Scheduling again, by a key or by an id, finds a task with the labels that it was made with.
func TestLabelsStayAsMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	tin := task.Label("tier", "tin")
	kept, moved := w.make(t, "ann", task.Key("k"), tin), w.make(t, "ann", task.Key("m"), tin)
	replaced := w.make(t, "ann", task.Key("r"), tin)
	once, byID, plain := w.make(t, "ann", task.Once("o"), tin), w.make(t, "ann", tin), w.make(t, "ann")
	time.Sleep(2 * time.Millisecond) // a task is known by the millisecond in which it was made
	for _, more := range [][]task.Option{
		{task.Key("k")},
		{task.KeyMove("m")},
		{task.KeyReplace("r")},
		{task.Once("o")},
		{task.WithID(byID.ID)},
		{task.WithID(plain.ID)},
	} {
		more = append(more, task.Label("tier", "gold"), task.Label("city", "Rome"))
		_, err := w.Schedule(ctx, meal.New("ann", 1, task.In(time.Hour), more...))
		pipelinetest.Must(t, err)
	}
	want := []string{"tier=tin", "tier=tin", "tier=tin", "tier=tin", "tier=tin", ""}
	if d := cmp.Diff(want, w.labels(t, kept, moved, replaced, once, byID, plain)); d != "" {
		t.Errorf("labels (-want +got):\n%s", d)
	}
}

// countingStore counts the statements about labels, and can refuse them.
type countingStore struct {
	*store.Store
	calls int
	err   error
}

func (s *countingStore) InsertLabels(ctx context.Context, q sqlx.ExtContext, labels []protocol.LabelRow) error {
	s.calls++
	if s.err != nil {
		return s.err
	}
	return s.Store.InsertLabels(ctx, q, labels)
}

// Tasks without labels cost no statement; all labels of a batch cost one. Tasks and labels are written together or not at all.
func TestLabelsAreOneStatement(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	counting := &countingStore{Store: w.store.Store}
	client, err := schedule.New(schedule.Config{}, counting, w, w)
	pipelinetest.Must(t, err)
	defer client.Close(context.Background())
	batch := func(opts ...task.Option) error {
		return client.InTx(ctx, func(tx *schedule.Tx) error {
			var specs []task.Spec
			for range 10 {
				specs = append(specs, meal.New("ann", 1, task.In(time.Hour), opts...))
			}
			_, err := tx.ScheduleMany(ctx, specs)
			return err
		})
	}
	pipelinetest.Must(t, batch())
	_, err = client.Schedule(ctx, meal.New("ann", 1, task.In(time.Hour)))
	pipelinetest.Must(t, err)
	if counting.calls != 0 {
		t.Errorf("%d statements about labels that no task has", counting.calls)
	}
	pipelinetest.Must(t, batch(task.Label("a", "1"), task.Label("b", "2")))
	if n := w.store.Number("SELECT COUNT(*) FROM duetime_labels"); counting.calls != 1 || n != 20 {
		t.Errorf("%d labels were written by %d statements, want 20 by 1", n, counting.calls)
	}
	counting.err = errors.New("no")
	before := w.store.Number("SELECT COUNT(*) FROM duetime_tasks")
	wantIs(t, batch(task.Label("a", "1")), counting.err)
	ignored := client.InTx(ctx, func(tx *schedule.Tx) error {
		_, _ = tx.Schedule(ctx, meal.New("ann", 1, task.In(time.Hour), task.Label("a", "1")))
		return nil
	})
	wantIs(t, ignored, counting.err)
	if n := w.store.Number("SELECT COUNT(*) FROM duetime_tasks"); n != before {
		t.Errorf("%d tasks were written without their labels", n-before)
	}
}

// Input outside the limits changes nothing.
func TestWrongLabelChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.Schedule(t.Context(), meal.New("ann", 1, task.In(time.Hour), task.Label("City", "Rome")))
	if wrong, ok := errors.AsType[*task.FieldError](err); !ok || wrong.Field != "label" {
		t.Errorf("got %v, want a FieldError of label", err)
	}
	if n := w.store.Number("SELECT (SELECT COUNT(*) FROM duetime_tasks) + (SELECT COUNT(*) FROM duetime_labels)"); n != 0 {
		t.Errorf("%d rows were written", n)
	}
}
