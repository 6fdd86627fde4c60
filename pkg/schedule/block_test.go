package schedule_test

import (
	"errors"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

var daily = task.NewKind[int]("meal.daily")

// wantBlocked wants every call that makes a task of the owner to be refused.
func wantBlocked(t *testing.T, w *world, owner string) {
	t.Helper()
	ctx := t.Context()
	spec := func(opts ...task.Option) task.Spec { return meal.New(owner, 1, task.In(time.Hour), opts...) }
	inTx := func(fn func(*schedule.Tx) error) error { return w.InTx(ctx, fn) }
	_, single := w.Schedule(ctx, spec())
	_, keyed := w.Schedule(ctx, spec(task.Key("one")))
	_, moved := w.Schedule(ctx, spec(task.KeyMove("one")))
	_, again := w.Recur(ctx, "daily", recur.Every(time.Hour), daily.Recurring(owner, 1), recur.Policy{})
	_, extra := w.RunRecurrence(ctx, owner, "daily")
	for what, err := range map[string]error{
		"Schedule": single, "with a key": keyed, "by moving": moved, "Recur": again, "RunRecurrence": extra,
		"ScheduleMany": inTx(func(tx *schedule.Tx) error {
			_, err := tx.ScheduleMany(ctx, []task.Spec{meal.New("other", 1, task.In(time.Hour)), spec()})
			return err
		}),
		"after a change": inTx(func(tx *schedule.Tx) error {
			if _, err := tx.Now(ctx); err != nil {
				return err
			}
			_, err := tx.Schedule(ctx, spec())
			return err
		}),
	} {
		if !errors.Is(err, task.ErrOwnerBlocked) {
			t.Errorf("%s: %v, want %v", what, err, task.ErrOwnerBlocked)
		}
	}
}

func (w *world) pendingOf(owner string) int {
	return w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE owner = ? AND state = 0", owner)
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestBlockOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.make(t, "ann")
	w.make(t, "ann")
	_, err := w.Schedule(ctx, meal.New("ann", 1, task.In(time.Hour), task.Key("one")))
	pipelinetest.Must(t, err)
	_, err = w.Recur(ctx, "daily", recur.Every(time.Hour), daily.Recurring("ann", 1), recur.Policy{})
	pipelinetest.Must(t, err)
	bob := w.make(t, "bob")

	n, err := w.BlockOwner(ctx, "ann")
	pipelinetest.Must(t, err)
	want(t, "cancelled", n, 4)
	want(t, "pending", w.pendingOf("ann"), 0)
	want(t, "bob's task", w.store.Row(bob.ID).State, task.Pending)
	wantBlocked(t, w, "ann")
	want(t, "pending", w.pendingOf("ann"), 0)
	blocked, err := w.BlockedOwners(ctx, "", 10)
	pipelinetest.Must(t, err)
	if len(blocked) != 1 || blocked[0].Owner != "ann" || blocked[0].Actor != task.ActorService || blocked[0].At.IsZero() {
		t.Errorf("blocked owners are %+v, want ann, by the service", blocked)
	}
	n, err = w.BlockOwner(ctx, "ann")
	pipelinetest.Must(t, err)
	want(t, "cancelled by a repeated call", n, 0)

	pipelinetest.Must(t, w.UnblockOwner(ctx, "ann"))
	w.make(t, "ann")
	pipelinetest.Must(t, w.UnblockOwner(ctx, "ann"))
	want(t, "pending of an owner who is not blocked", w.pendingOf("ann"), 1)
	blocked, err = w.BlockedOwners(ctx, "", 10)
	pipelinetest.Must(t, err)
	want(t, "blocked owners", len(blocked), 0)
}
