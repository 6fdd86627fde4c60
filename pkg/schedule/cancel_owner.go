package schedule

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// CancelOwner cancels all pending tasks of the owner, of one kind or ("") of any, however many there are, and returns how
// many they were. It goes on in transactions of up to task.MaxPerCall tasks each: on an error what was cancelled so far stays
// so, and the call may be repeated. Tasks that an outside handler is running are an error, task.ErrRunning, after all others
// of its transaction were left as they were. What others schedule for the owner meanwhile may be cancelled as well, or not; the
// follow-ups of its own tasks that run meanwhile are. A cancelled tick of a recurrence makes the next tick, which this call
// leaves: stop the recurrence to end it.
func (c *Client) CancelOwner(ctx context.Context, owner, kind string) (cancelled int, err error) {
	if err := task.CheckOwner(owner); err != nil {
		return 0, err
	}
	made := map[task.ID]bool{}
	for {
		n, changed, err := c.cancelPages(ctx, owner, kind, made)
		if cancelled += n; err != nil {
			return cancelled, fmt.Errorf("cancel tasks of owner %s, after %d: %w", owner, cancelled, err)
		}
		if !changed {
			return cancelled, nil
		}
	}
}

// cancelPages cancels the owner's pending tasks once through. changed says that one of them ended or moved before it was locked: it
// may have made others, which the list did not have.
func (c *Client) cancelPages(ctx context.Context, owner, kind string, made map[task.ID]bool) (cancelled int, changed bool, err error) {
	var after protocol.Cursor
	for {
		rows, err := c.store.ListOwnerPage(ctx, owner, after, task.MaxPerCall)
		if err != nil {
			return cancelled, false, err
		}
		n, differ, err := c.cancelPage(ctx, rows, kind, made)
		cancelled, changed = cancelled+n, changed || differ
		if err != nil || len(rows) < task.MaxPerCall {
			return cancelled, changed, err
		}
		last := rows[len(rows)-1]
		after = protocol.Cursor{At: last.RunAt, ID: last.ID}
	}
}

// cancelPage cancels those of the rows that are still pending, but for the ticks that this call has made: it would cancel
// all their followers too, page by page. It adds the ticks that it makes. changed says that a row was of another version by then.
func (c *Client) cancelPage(ctx context.Context, rows []task.Task, kind string, made map[task.ID]bool) (n int, changed bool, err error) {
	rows = slices.DeleteFunc(slices.Clone(rows), func(row task.Task) bool { return kind != "" && row.Kind != kind || made[row.ID] })
	if len(rows) == 0 {
		return 0, false, nil
	}
	var touched []task.Task
	err = c.InTx(ctx, func(tx *Tx) (err error) {
		n, changed, err = tx.cancelPending(ctx, rows)
		touched = tx.ledger.Touched(0)
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
	return n, changed, nil
}

// cancelPending cancels those of the tasks that are still pending. changed says that one is of another version than was read.
func (t *Tx) cancelPending(ctx context.Context, read []task.Task) (n int, changed bool, err error) {
	found := protocol.ByID(read)
	locked, err := t.lock(ctx, "cancel", slices.Collect(maps.Keys(found)))
	if err != nil {
		return 0, false, err
	}
	changed = len(locked) < len(read) ||
		slices.ContainsFunc(locked, func(row task.Task) bool { return row.Version != found[row.ID].Version })
	locked = slices.DeleteFunc(locked, func(row task.Task) bool { return row.State != task.Pending })
	if len(locked) == 0 {
		return 0, changed, nil
	}
	_, err = t.transit(ctx, "cancel", locked, cancel)
	return len(locked), changed, err
}
