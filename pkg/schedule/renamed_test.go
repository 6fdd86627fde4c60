package schedule_test

import (
	"context"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/encrypt"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

var (
	fed      = task.NewKind[int]("feed.done", task.Was(meal.Name()))
	notYet   = task.NewKind[int](meal.Name(), task.Was(fed.Name())) // of the version before
	bySecret = encrypt.Payloads(func(string) (encrypt.Key, error) { return encrypt.Key{ID: "k1", Secret: make([]byte, 32)}, nil })
)

// Whatever a key does, it does to the task that has it under the kind's old name.
func TestKeysOfARenamedKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	window := func(k string) task.Option { return task.Window(k, 24*365*time.Hour) }
	for name, c := range map[string]struct {
		key     func(string) task.Option
		ended   bool
		outcome task.Outcome
	}{
		"key": {task.Key, false, task.Kept}, "key that is free": {task.Key, true, task.Made},
		"move": {task.KeyMove, false, task.Moved}, "replace": {task.KeyReplace, false, task.Replaced},
		"once": {task.Once, false, task.Kept}, "once, ended": {task.Once, true, task.Kept},
		"window": {window, false, task.Kept}, "window, ended": {window, true, task.Kept},
	} {
		first := w.make(t, "ann", c.key(name))
		if c.ended {
			_, err := w.Cancel(ctx, first.ID)
			pipelinetest.Must(t, err)
		}
		spec := fed.New("ann", 2, task.In(2*time.Hour), c.key(name))
		for range 2 { // the second is a repeated call
			stands, err := w.Schedule(ctx, spec)
			pipelinetest.Must(t, err)
			want(t, name+": outcome", spec.Outcome(stands), c.outcome)
			want(t, name+": same task", stands.ID == first.ID, c.outcome != task.Made)
		}
		other, err := w.Schedule(ctx, fed.New("bob", 2, task.In(time.Hour), c.key(name)))
		pipelinetest.Must(t, err)
		want(t, name+": kind of another owner's task", other.Kind, fed.Name())
		back, err := w.Schedule(ctx, notYet.New("bob", 2, task.In(time.Hour), c.key(name)))
		pipelinetest.Must(t, err)
		want(t, name+": the same task by the old name", back.ID, other.ID)
	}
}

// Two versions of a service schedule by one key at the same moment, each under its name: it is one task.
func TestKeyUnderTwoNamesSideBySide(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	var first task.Task
	second := make(chan task.Task, 1)
	pipelinetest.Must(t, w.InTx(ctx, func(tx *schedule.Tx) (err error) {
		if first, err = tx.Schedule(ctx, notYet.New("ann", 1, task.In(time.Hour), task.Key("k"))); err != nil {
			return err
		}
		go func() {
			stands, err := w.Schedule(context.WithoutCancel(ctx), fed.New("ann", 2, task.In(time.Hour), task.Key("k")))
			if err != nil {
				t.Error(err)
			}
			second <- stands
		}()
		pipelinetest.Await(t, "the other name to wait", func() bool { return len(second) > 0 || pipelinetest.LockWaits(t, w.store.DB()) > 0 })
		return nil
	}))
	want(t, "task", (<-second).ID, first.ID)
	want(t, "tasks", len(w.pending(t, "ann")), 1)
}

// A task keeps its name, so what a key replaces in it can be read by workers of before the kind was renamed.
func TestReplacedUnderItsOldName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := task.NewKind[int](meal.Name(), bySecret)
	after := task.NewKind[int](fed.Name(), bySecret, task.Was(meal.Name()))
	_, err := w.Schedule(t.Context(), before.New("ann", 1, task.In(time.Hour), task.KeyReplace("k")))
	pipelinetest.Must(t, err)
	row, err := w.Schedule(t.Context(), after.New("ann", 2, task.In(time.Hour), task.KeyReplace("k")))
	pipelinetest.Must(t, err)
	want(t, "kind", row.Kind, meal.Name())
	for _, kind := range []task.Kind[int]{before, after} {
		payload, err := kind.Payload(w.store.Row(row.ID))
		pipelinetest.Must(t, err)
		want(t, "payload for "+kind.Name(), payload, 2)
	}
}

// The look at the other name locks nothing else: a new task of another owner, not committed yet, does not keep it waiting.
func TestKeyOfARenamedKindWaitsForNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	pipelinetest.Must(t, w.InTx(ctx, func(tx *schedule.Tx) error {
		_, err := tx.Schedule(ctx, meal.New("bob", 1, task.In(time.Hour)))
		pipelinetest.Must(t, err)
		_, err = w.Schedule(context.WithoutCancel(ctx), fed.New("ann", 1, task.In(time.Hour), task.Key("k")))
		pipelinetest.Must(t, err)
		return nil
	}))
}

// In one call too, a spec finds the task that an earlier one has made under another name.
func TestKeyUnderTwoNamesInOneCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pipelinetest.Must(t, w.InTx(t.Context(), func(tx *schedule.Tx) error {
		rows, err := tx.ScheduleMany(t.Context(), []task.Spec{
			meal.New("ann", 1, task.In(time.Hour), task.Key("k")), fed.New("ann", 2, task.In(time.Hour), task.Key("k")),
		})
		pipelinetest.Must(t, err)
		want(t, "task", rows[1].ID, rows[0].ID)
		return nil
	}))
	want(t, "tasks", len(w.pending(t, "ann")), 1)
}

// A recurrence keeps its name when its kind is renamed: a tick that was cancelled is not made once more under the new name.
func TestRecurUnderANewName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	before := task.NewKind[int](meal.Name(), bySecret)
	after := task.NewKind[int](fed.Name(), bySecret, task.Was(meal.Name()))
	define := func(name string, kind task.Kind[int], payload int, policy recur.Policy) task.Recurrence {
		t.Helper()
		r, err := w.Recur(ctx, name, weekly, kind.Recurring("ann", payload), policy)
		pipelinetest.Must(t, err)
		return r
	}
	cancel := func(r task.Recurrence) string {
		t.Helper()
		_, err := w.Cancel(ctx, r.Newest)
		pipelinetest.Must(t, err)
		return w.store.Row(r.Newest).DedupKey
	}

	once := recur.Policy{Count: 1}
	cancel(define("over", before, 1, once))
	want(t, "state of one that is over", define("over", after, 1, once).State, task.RecurrenceOver)
	want(t, "tasks of one that is over", len(w.pending(t, "ann")), 0)

	active := define("active", before, 1, recur.Policy{})
	same := define("active", after, 1, recur.Policy{})
	want(t, "kind", same.Kind, meal.Name())
	want(t, "newest", same.Newest, active.Newest)
	want(t, "when it was changed", same.UpdatedAt, active.UpdatedAt)

	cancelled := cancel(active)
	changed := define("active", after, 2, recur.Policy{})
	next := w.wantPending(t, changed)
	want(t, "kind of the next task", next.Kind, meal.Name())
	want(t, "the cancelled tick is made once more", next.DedupKey == cancelled, false)
	for _, kind := range []task.Kind[int]{before, after} {
		payload, err := kind.Payload(next)
		pipelinetest.Must(t, err)
		want(t, "payload for "+kind.Name(), payload, 2)
	}
}
