package schedule

import (
	"context"
	"fmt"
	"slices"

	"github.com/duetime/duetime/pkg/task"
)

// CancelOwner cancels all pending tasks of the owner, of one kind or ("") of any, however many there are, and returns how
// many they were. It goes on in transactions of up to task.MaxPerCall tasks each: on an error what was cancelled so far stays
// so, and the call may be repeated. Tasks that an outside handler is running are an error, task.ErrRunning, after all others
// of its transaction were left as they were. What is scheduled for the owner meanwhile may be cancelled as well, or not. A
// cancelled tick of a recurrence makes the next tick, which this call leaves: stop the recurrence to end it.
func (c *Client) CancelOwner(ctx context.Context, owner, kind string) (cancelled int, err error) {
	if err := task.CheckOwner(owner); err != nil {
		return 0, err
	}
	var after task.Cursor
	made := map[task.ID]bool{}
	for {
		rows, err := c.store.ListOwnerPage(ctx, owner, after, task.MaxPerCall)
		if err != nil {
			return cancelled, fmt.Errorf("cancel tasks of owner %s: %w", owner, err)
		}
		n, err := c.cancelPage(ctx, rows, kind, made)
		cancelled += n
		if err != nil {
			return cancelled, fmt.Errorf("cancel tasks of owner %s, after %d: %w", owner, cancelled, err)
		}
		if len(rows) < task.MaxPerCall {
			return cancelled, nil
		}
		last := rows[len(rows)-1]
		after = task.Cursor{At: last.RunAt, ID: last.ID}
	}
}

// cancelPage cancels those of the rows that are still pending, but for the ticks that this call has made: it would cancel
// all their followers too, page by page. It adds the ticks that it makes.
func (c *Client) cancelPage(ctx context.Context, rows []task.Task, kind string, made map[task.ID]bool) (n int, err error) {
	var ids []task.ID
	for _, row := range rows {
		if (kind == "" || row.Kind == kind) && !made[row.ID] {
			ids = append(ids, row.ID)
		}
	}
	if len(ids) == 0 {
		return 0, nil
	}
	var touched []task.Task
	err = c.InTx(ctx, func(tx *Tx) error {
		changed, err := tx.cancelPending(ctx, ids)
		n, touched = len(changed), tx.Touched()
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, row := range touched {
		if row.State == task.Pending {
			made[row.ID] = true
		}
	}
	return n, nil
}

// cancelPending cancels those of the tasks that are still pending.
func (t *Tx) cancelPending(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	locked, err := t.lock(ctx, "cancel", ids)
	if err != nil {
		return nil, err
	}
	locked = slices.DeleteFunc(locked, func(row task.Task) bool { return row.State != task.Pending })
	if len(locked) == 0 {
		return nil, nil
	}
	return t.transit(ctx, "cancel", locked, cancel)
}
