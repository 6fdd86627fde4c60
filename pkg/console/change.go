package console

import (
	"context"
	"time"

	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// Cancel cancels a pending task. Its errors are those of schedule.Tx: task.ErrNotFound, task.ErrRunning, and one that is
// task.ErrFinished if the task has ended.
func (c *Console) Cancel(ctx context.Context, id task.ID) (Task, error) {
	return c.change(ctx, func(tx *schedule.Tx) (task.Task, error) { return tx.Cancel(ctx, id) })
}

// Reschedule gives a pending task another due time; the past means now. Its errors are those of Cancel.
func (c *Console) Reschedule(ctx context.Context, id task.ID, due task.When) (Task, error) {
	return c.change(ctx, func(tx *schedule.Tx) (task.Task, error) { return tx.Reschedule(ctx, id, due) })
}

// Shift moves a pending task by a duration, but never before now. Its errors are those of Cancel.
func (c *Console) Shift(ctx context.Context, id task.ID, by time.Duration) (Task, error) {
	return c.change(ctx, func(tx *schedule.Tx) (task.Task, error) { return tx.Shift(ctx, id, by) })
}

// change makes one change of one task, and writes its line of history in the same transaction.
func (c *Console) change(ctx context.Context, fn func(tx *schedule.Tx) (task.Task, error)) (Task, error) {
	var changed task.Task
	err := c.clientTx(ctx, func(tx *schedule.Tx) (err error) {
		if changed, err = fn(tx); err != nil {
			return err
		}
		return tx.RecordHistory(ctx)
	})
	if err != nil {
		return Task{}, err
	}
	return TaskOf(changed), nil
}
