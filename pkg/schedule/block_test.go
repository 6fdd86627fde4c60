package schedule_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
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
	if len(blocked) != 1 || blocked[0].Owner != "ann" || blocked[0].Actor != protocol.ActorService || blocked[0].At.IsZero() {
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

// Beyond what one transaction takes, the client goes on, and Tx refuses.
func TestBlockOwnerGoesOnInPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	for _, n := range []int{task.MaxPerCall, 1} {
		specs := make([]task.Spec, n)
		for i := range specs {
			specs[i] = meal.New("ann", i, task.In(time.Hour))
		}
		pipelinetest.Must(t, w.InTx(ctx, func(tx *schedule.Tx) error {
			_, err := tx.ScheduleMany(ctx, specs)
			return err
		}))
	}
	err := w.InTx(ctx, func(tx *schedule.Tx) error {
		_, err := tx.BlockOwner(ctx, "ann")
		return err
	})
	if e, ok := errors.AsType[*task.FieldError](err); !ok {
		t.Errorf("in one transaction: %v, want a field error", e)
	}
	want(t, "pending after the refusal", w.pendingOf("ann"), task.MaxPerCall+1)
	w.make(t, "ann") // not blocked
	n, err := w.BlockOwner(ctx, "ann")
	pipelinetest.Must(t, err)
	want(t, "cancelled", n, task.MaxPerCall+2)
	want(t, "pending", w.pendingOf("ann"), 0)
}

func TestBlockOwnerInATransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	made := w.make(t, "ann")
	block := func(then error) error {
		return w.InTx(ctx, func(tx *schedule.Tx) error {
			ended, err := tx.As("carl@host").BlockOwner(ctx, "ann")
			if err != nil {
				return err
			}
			if len(ended) != 1 || ended[0].ID != made.ID || ended[0].State != task.Cancelled {
				t.Errorf("cancelled: %v, want the one task", ended)
			}
			if _, err := tx.Schedule(ctx, meal.New("ann", 1, task.In(time.Hour))); !errors.Is(err, task.ErrOwnerBlocked) {
				t.Errorf("schedule after it: %v, want %v", err, task.ErrOwnerBlocked)
			}
			return then
		})
	}
	wantIs(t, block(context.Canceled), context.Canceled)
	want(t, "state after the rollback", w.store.Row(made.ID).State, task.Pending)
	pipelinetest.Must(t, block(nil))
	wantBlocked(t, w, "ann")
	blocked, err := w.BlockedOwners(ctx, "", 1)
	pipelinetest.Must(t, err)
	want(t, "actor", blocked[0].Actor, "carl@host")
	pipelinetest.Must(t, w.InTx(ctx, func(tx *schedule.Tx) error { return tx.UnblockOwner(ctx, "ann") }))
	w.make(t, "ann")
}

// What was left before the end of a block does not run after it.
func TestUnblockOwnerCancelsWhatIsLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	open, err := w.store.Begin(ctx)
	pipelinetest.Must(t, err)
	defer func() { _ = open.Rollback() }()
	left, err := schedule.NewTx(open, w.store).Schedule(ctx, meal.New("ann", 1, task.In(time.Hour)))
	pipelinetest.Must(t, err)
	n, err := w.BlockOwner(ctx, "ann")
	pipelinetest.Must(t, err)
	want(t, "cancelled", n, 0)
	pipelinetest.Must(t, open.Commit())
	pipelinetest.Must(t, w.UnblockOwner(ctx, "ann"))
	want(t, "state", w.store.Row(left.ID).State, task.Cancelled)
	wantIs(t, w.UnblockOwner(ctx, "ann"), nil)
}

// A call of one task that shares its INSERT with one for a blocked owner goes on by itself.
func TestSharedInsertWithABlockedOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.BlockOwner(t.Context(), "ann")
	pipelinetest.Must(t, err)
	const callers = 32
	errs := make([]error, callers)
	var calls sync.WaitGroup
	for i := range callers {
		calls.Go(func() {
			_, errs[i] = w.Schedule(t.Context(), meal.New([]string{"ann", "bob"}[i%2], i, task.In(time.Hour)))
		})
	}
	calls.Wait()
	for i, err := range errs {
		if blocked := errors.Is(err, task.ErrOwnerBlocked); blocked != (i%2 == 0) || !blocked && err != nil {
			t.Errorf("call %d: %v", i, err)
		}
	}
	want(t, "tasks of bob", w.pendingOf("bob"), callers/2)
	want(t, "tasks of ann", w.pendingOf("ann"), 0)
}
