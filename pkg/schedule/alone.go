package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/duetime/duetime/internal/batcher"
	"github.com/duetime/duetime/pkg/task"
)

const (
	concurrentInserts   = 2  // statements of Schedule: with more of them each has fewer rows, and waits for the others' flushes
	concurrentChanges   = 2  // transactions of Reschedule, Shift and Cancel
	maxRowsPerStatement = 64 // their payloads stay below the packet size that a server accepts
)

// wrote answers what was asked for together with others: with the task as it stands now, or with why it can't be changed,
// or with neither where a transaction of the caller's own may do better.
type wrote struct {
	task task.Task
	err  error
}

// Schedule is Tx.Schedule in a transaction of its own. It answers as soon as that has committed, unless the index is so far
// behind that its callers are slowed down; the entry follows at once, and Tasks of this client waits for it. After
// ErrCommitUnknown the same spec may be scheduled again: it is one task.
func (c *Client) Schedule(ctx context.Context, spec task.Spec) (task.Task, error) {
	if spec.Mode() == task.Unkeyed {
		if made, done, err := c.scheduleAlone(ctx, spec); done {
			return made, err
		}
	}
	return inTx(ctx, c, func(tx *Tx) (task.Task, error) { return tx.Schedule(ctx, spec) })
}

// scheduleAlone inserts the row together with those of other callers, as a statement that is a transaction of its own.
func (c *Client) scheduleAlone(ctx context.Context, spec task.Spec) (made task.Task, done bool, err error) {
	ctx, specs, end := traced(ctx, c.tracer, []task.Spec{spec})
	defer func() { end(err) }()
	if _, err := spec.Resolve(time.Now()); err != nil {
		return task.Task{}, true, err // before it could spoil the others' statement
	}
	if err := c.cfg.Kinds.check(specs); err != nil {
		return task.Task{}, true, err
	}
	out, err := c.inserts.Do(ctx, specs[0])
	done, err = c.alone(spec.ID(), out, err)
	return out.task, done, err
}

// insert writes the rows of several callers, and has them indexed behind their backs: they need the database's answer alone.
func (c *Client) insert(ctx context.Context, specs []task.Spec) ([]wrote, error) {
	made, err := c.store.InsertAutocommit(ctx, specs)
	if err != nil || made == nil {
		return nil, err
	}
	c.writer.Enqueue(ctx, made)
	outs := make([]wrote, len(made))
	for i, t := range made {
		outs[i].task = t
	}
	return outs, nil
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

// change is what a caller asks for, to be made alone or together with other callers'.
type change struct {
	verb string
	id   task.ID
	next transition
}

// of computes the change of a row at a moment.
func (c change) of(row task.Task, now time.Time) wrote {
	next, err := c.next(row, now)
	if err != nil {
		return c.refused(err)
	}
	return wrote{task: next}
}

func (c change) refused(err error) wrote {
	return wrote{err: fmt.Errorf("%s %s: %w", c.verb, c.id, err)}
}

func (c *Client) change(ctx context.Context, verb string, id task.ID, next transition) (task.Task, error) {
	out, err := c.changes.Do(ctx, change{verb, id, next})
	if out.err != nil {
		return task.Task{}, out.err
	}
	if done, err := c.alone(id, out, err); done {
		return out.task, err
	}
	return inTx(ctx, c, func(tx *Tx) (task.Task, error) { return tx.one(ctx, verb, id, next) })
}

// makeChanges makes changes of several callers in one transaction. It waits for nobody: a row that is locked is left to
// its caller's own transaction, and so is a second change of one task.
func (c *Client) makeChanges(ctx context.Context, asked []change) ([]wrote, error) {
	if len(asked) == 1 {
		out, err := c.makeChange(ctx, asked[0])
		return []wrote{out}, err
	}
	ids := make([]task.ID, len(asked))
	for i, a := range asked {
		ids[i] = a.id
	}
	outs := make([]wrote, len(asked))
	tx, err := c.try(ctx, func(tx *Tx) error {
		rows, now, err := c.store.LockFree(ctx, tx.db, inOrder(ids))
		if err != nil {
			return err
		}
		byID := make(map[task.ID]task.Task, len(rows))
		for _, row := range rows {
			byID[row.ID] = row
		}
		var before, after []task.Task
		for i, a := range asked {
			row, free := byID[a.id]
			if !free {
				continue
			}
			delete(byID, a.id)
			if outs[i] = a.of(row, now); outs[i].err == nil {
				before, after = append(before, row), append(after, outs[i].task)
			}
		}
		if len(after) == 0 {
			return nil
		}
		return tx.save(ctx, "change", before, after)
	})
	if err != nil {
		return nil, err
	}
	c.writer.PutDirectly(ctx, tx.Touched())
	c.history.add(tx.Events())
	return outs, nil
}

// makeChange reads the row and writes it where it is still the same, a statement each.
func (c *Client) makeChange(ctx context.Context, asked change) (wrote, error) {
	row, now, free, err := c.store.ReadFree(ctx, asked.id)
	if err != nil || !free {
		return wrote{}, err // a transaction of the caller's own waits for it, or says that there is none
	}
	out := asked.of(row, now)
	if out.err != nil {
		return out, nil //nolint:nilerr // it is the caller's own
	}
	if err := c.store.SaveAutocommit(ctx, out.task); err != nil {
		if mysqlNumber(err) == mysqlLockWait {
			return asked.refused(fmt.Errorf("lock: %w", running(err))), nil
		}
		return wrote{}, err
	}
	c.writer.PutDirectly(ctx, []task.Task{out.task})
	c.history.add([]task.Event{task.Changed(row, out.task)})
	return out, nil
}

// alone ends what was asked for alone or with others. It has the daemon look at a row that may have been written. It is not
// done where nothing was written and a transaction may do better.
func (c *Client) alone(id task.ID, out wrote, err error) (done bool, _ error) {
	switch {
	case errors.Is(err, ErrCommitUnknown):
		return true, err
	case c.store.Unclear(err) || errors.Is(err, batcher.ErrLeft):
		c.writer.Compensate([]task.Task{{ID: id}})
		return true, fmt.Errorf("%w: %w", ErrCommitUnknown, err)
	case err != nil || out.task.Version == 0:
		return false, nil //nolint:nilerr // a transaction tries the same, and says what it ran into
	default:
		return true, nil
	}
}
