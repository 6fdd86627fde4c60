package schedule

import (
	"context"
	"fmt"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// Schedule is Tx.Schedule in a transaction of its own. After ErrCommitUnknown the same spec may be scheduled again: it is
// one task.
func (c *Client) Schedule(ctx context.Context, spec task.Spec) (task.Task, error) {
	if spec.Mode() == task.Unkeyed {
		if made, done, err := c.scheduleAlone(ctx, spec); done {
			return made, err
		}
	}
	return inTx(ctx, c, func(tx *Tx) (task.Task, error) { return tx.Schedule(ctx, spec) })
}

func (c *Client) scheduleAlone(ctx context.Context, spec task.Spec) (made task.Task, done bool, err error) {
	ctx, specs, end := traced(ctx, c.tracer, []task.Spec{spec})
	defer func() { end(err) }()
	made, fresh, err := c.store.InsertAlone(ctx, specs[0])
	done, err = c.alone(ctx, &made, fresh, err)
	return made, done, err
}

// Reschedule is Tx.Reschedule in a transaction of its own.
func (c *Client) Reschedule(ctx context.Context, id task.ID, when task.When) (task.Task, error) {
	return c.change(ctx, "reschedule", id, move(when))
}

// Shift is Tx.Shift in a transaction of its own. It is not safe to repeat after ErrCommitUnknown.
func (c *Client) Shift(ctx context.Context, id task.ID, d time.Duration) (task.Task, error) {
	return c.change(ctx, "shift", id, shift(d))
}

// Cancel is Tx.Cancel in a transaction of its own.
func (c *Client) Cancel(ctx context.Context, id task.ID) (task.Task, error) {
	return c.change(ctx, "cancel", id, cancel)
}

// change reads the row and writes it where it is still the same, a statement each. Where somebody else was faster, it
// takes a transaction that locks the row.
func (c *Client) change(ctx context.Context, verb string, id task.ID, next transition) (task.Task, error) {
	row, now, found, err := c.store.Read(ctx, id)
	if err == nil && !found {
		return task.Task{}, fmt.Errorf("%s %s: %w", verb, id, task.ErrNotFound)
	}
	if err == nil {
		changed, err := next(row, now)
		if err != nil {
			return task.Task{}, fmt.Errorf("%s %s: %w", verb, id, err)
		}
		err = c.store.SaveAlone(ctx, changed)
		if done, err := c.alone(ctx, &changed, err == nil, err); done {
			if err == nil {
				c.history.add([]task.Event{task.Changed(row, changed)})
			}
			return changed, err
		}
		if mysqlNumber(err) == mysqlLockWait {
			return task.Task{}, fmt.Errorf("%s %s: lock: %w", verb, id, running(err))
		}
	}
	return inTx(ctx, c, func(tx *Tx) (task.Task, error) { return tx.one(ctx, verb, id, next) })
}

// alone ends a change that was one statement: it indexes what was committed, and has the daemon look at what may have
// been. It is not done where nothing was written and a transaction may do better.
func (c *Client) alone(ctx context.Context, changed *task.Task, wrote bool, err error) (done bool, _ error) {
	switch {
	case c.store.Unclear(err):
		c.indexer.backlog.add([]task.Task{*changed})
		*changed = task.Task{}
		return true, fmt.Errorf("%w: %w", ErrCommitUnknown, err)
	case err != nil || !wrote:
		return false, nil //nolint:nilerr // a transaction tries the same, and says what it ran into
	default:
		c.indexer.put(ctx, []task.Task{*changed})
		return true, nil
	}
}
