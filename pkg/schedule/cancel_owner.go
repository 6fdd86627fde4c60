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
// of its transaction were left as they were. What others schedule for the owner meanwhile may be cancelled as well, or not; the
// follow-ups of tasks that end meanwhile are. A cancelled tick of a recurrence makes the next tick, which this call leaves: stop the recurrence to end it.
func (c *Client) CancelOwner(ctx context.Context, owner, kind string) (cancelled int, err error) {
	if err := task.CheckOwner(owner); err != nil {
		return 0, err
	}
	made := map[task.ID]bool{}
	for {
		n, ended, err := c.cancelPages(ctx, owner, kind, made)
		if cancelled += n; err != nil {
			return cancelled, fmt.Errorf("cancel tasks of owner %s, after %d: %w", owner, cancelled, err)
		}
		if !ended {
			return cancelled, nil
		}
	}
}

// cancelPages cancels the owner's pending tasks once through. ended says that one of them ended before it was locked: it may have
// made others, which the list did not have.
func (c *Client) cancelPages(ctx context.Context, owner, kind string, made map[task.ID]bool) (cancelled int, ended bool, err error) {
	var after task.Cursor
	for {
		rows, err := c.store.ListOwnerPage(ctx, owner, after, task.MaxPerCall)
		if err != nil {
			return cancelled, false, err
		}
		n, lost, err := c.cancelPage(ctx, rows, kind, made)
		cancelled, ended = cancelled+n, ended || lost
		if err != nil || len(rows) < task.MaxPerCall {
			return cancelled, ended, err
		}
		last := rows[len(rows)-1]
		after = task.Cursor{At: last.RunAt, ID: last.ID}
	}
}

// cancelPage cancels those of the rows that are still pending, but for the ticks that this call has made: it would cancel
// all their followers too, page by page. It adds the ticks that it makes. ended says that one was not pending any more.
func (c *Client) cancelPage(ctx context.Context, rows []task.Task, kind string, made map[task.ID]bool) (n int, ended bool, err error) {
	var ids []task.ID
	for _, row := range rows {
		if (kind == "" || row.Kind == kind) && !made[row.ID] {
			ids = append(ids, row.ID)
		}
	}
	if len(ids) == 0 {
		return 0, false, nil
	}
	var touched []task.Task
	err = c.InTx(ctx, func(tx *Tx) error {
		changed, err := tx.cancelPending(ctx, ids)
		n, touched = len(changed), tx.Touched()
		return err
	})
	if err != nil {
		return 0, false, err
	}
	for _, row := range touched {
		if row.State == task.Pending {
			made[row.ID] = true
		}
	}
	return n, n < len(ids), nil
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
