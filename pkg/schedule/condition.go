package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// Condition is what must hold of a task for a change of it. A change whose condition is not met answers task.ErrUnmet, and changes
// nothing. It is checked under the task's lock, with the transaction's present time. A service may write its own, whose error comes out
// of the call.
type Condition func(t task.Task, now time.Time) error

// IfVersion has the change made only if the task has this version still: nobody has changed it since it was read.
func IfVersion(version int64) Condition {
	return func(t task.Task, _ time.Time) error {
		if t.Version != version {
			return fmt.Errorf("%w: its version is %d, not %d", task.ErrUnmet, t.Version, version)
		}
		return nil
	}
}

// IfDueWithin has the change made only if the task is due within d from now.
func IfDueWithin(d time.Duration) Condition {
	return func(t task.Task, now time.Time) error {
		if in := t.DueAt.Sub(now); in > d {
			return fmt.Errorf("%w: it is due in %v, not within %v", errNotSoon, in, d)
		}
		return nil
	}
}

var errNotSoon = fmt.Errorf("%w: too early", task.ErrUnmet)

// only is a transition under conditions. How a task has ended comes before what a condition says.
func only(next step, conditions []Condition) step {
	if len(conditions) == 0 {
		return next
	}
	return func(t task.Task, now time.Time) (task.Task, error) {
		changed, err := next(t, now)
		for _, met := range conditions {
			if err == nil {
				err = met(t, now)
			}
		}
		return changed, err
	}
}

// Lock locks the task until the transaction ends, and returns it: what it says holds until then, so that the caller can decide by it. Its
// errors are those of Reschedule, but that a task that has ended comes back like any other.
func (t *Tx) Lock(ctx context.Context, id task.ID) (task.Task, error) {
	ctx, err := t.forTasks(ctx)
	if err != nil {
		return task.Task{}, err
	}
	locked, err := t.lock(ctx, "lock", []task.ID{id})
	if err != nil {
		return task.Task{}, err
	}
	if len(locked) == 0 {
		return task.Task{}, fmt.Errorf("lock %s: %w", id, task.ErrNotFound)
	}
	return locked[0], nil
}

// Extend puts the task off by d, as a late bid does with an auction's end: IfDueWithin says how late. A task that is not due so soon
// is left as it is, and comes back. One whose time has come answers task.ErrDue, whether or not a worker has run it yet. Its other
// errors are those of Reschedule.
func (t *Tx) Extend(ctx context.Context, id task.ID, d time.Duration, conditions ...Condition) (task.Task, error) {
	if d < 0 {
		return task.Task{}, &task.FieldError{Field: "d", Problem: "must not be below 0: Shift moves a task nearer"}
	}
	var found task.Task
	changed, err := t.changeOne(ctx, "extend", id, only(func(row task.Task, now time.Time) (task.Task, error) {
		found = row
		if row.State == task.Pending && !row.DueAt.After(now) {
			return row, task.ErrDue
		}
		return transition.Shift(row, d, now)
	}, conditions))
	if errors.Is(err, errNotSoon) {
		return found, nil
	}
	return changed, err
}
