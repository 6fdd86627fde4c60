package console

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// Cancel cancels a pending task. Its errors are those of schedule.Tx: task.ErrNotFound, task.ErrRunning, and one that is
// task.ErrFinished if the task has ended. If the task no longer has the version that its caller has seen, the error is ErrMeanwhile;
// version 0 stands for any.
func (c *Console) Cancel(ctx context.Context, id task.ID, version int64) (Task, error) {
	return c.changeVersion(ctx, version, func(tx *schedule.Tx) (task.Task, error) { return tx.Cancel(ctx, id) })
}

// Reschedule gives a pending task another due time; the past means now. Its version and its errors are those of Cancel.
func (c *Console) Reschedule(ctx context.Context, id task.ID, version int64, due task.When) (Task, error) {
	return c.changeVersion(ctx, version, func(tx *schedule.Tx) (task.Task, error) { return tx.Reschedule(ctx, id, due) })
}

// Shift moves a pending task by a duration, but never before now. Its errors are those of Cancel.
func (c *Console) Shift(ctx context.Context, id task.ID, by time.Duration) (Task, error) {
	return c.change(ctx, func(tx *schedule.Tx) (task.Task, error) { return tx.Shift(ctx, id, by) })
}

// ErrMeanwhile answers a change of a task that somebody has changed since its caller saw it.
var ErrMeanwhile = errors.New("the task was changed meanwhile")

// meanwhile is ErrMeanwhile with the version that the task has, and the one that the caller saw.
type meanwhile struct{ stands, seen int64 }

func (e meanwhile) Error() string {
	return fmt.Sprintf("%v: version %d, seen was %d", ErrMeanwhile, e.stands, e.seen)
}

func (e meanwhile) Unwrap() error { return ErrMeanwhile }

// Stands is for internal/api, whose answer names the version.
func (e meanwhile) Stands() int64 { return e.stands }

// changeVersion makes a change of a task if its version is still the one that its caller saw. The row is locked before the versions
// are compared, and the change is rolled back if they differ.
func (c *Console) changeVersion(
	ctx context.Context, version int64, fn func(tx *schedule.Tx) (task.Task, error),
) (Task, error) {
	return c.change(ctx, func(tx *schedule.Tx) (task.Task, error) {
		changed, err := fn(tx)
		if err == nil && version > 0 && changed.Version > version+1 {
			err = meanwhile{stands: changed.Version - 1, seen: version}
		}
		return changed, err
	})
}

// change makes one change of one task, and writes its line of history in the same transaction.
func (c *Console) change(ctx context.Context, fn func(tx *schedule.Tx) (task.Task, error)) (Task, error) {
	var changed task.Task
	err := c.clientTx(ctx, func(tx *schedule.Tx) (err error) {
		if changed, err = fn(tx); err != nil {
			return err
		}
		return record(ctx, tx)
	})
	if err != nil {
		return Task{}, err
	}
	return TaskOf(changed), nil
}
