package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/pkg/task"
)

// BulkBatch is the number of tasks in one transaction: small enough for short locks and for a cheap retry.
const BulkBatch = 200

// deadVerb is a change of dead tasks.
type deadVerb struct {
	name string
	next func(task.Task, time.Time) (task.Task, error)
}

var (
	retry   = deadVerb{"retry", task.Task.Retry}
	discard = deadVerb{"discard", task.Task.Dismiss}
)

// Bulk is the result of a change of many dead tasks.
type Bulk struct {
	Changed  int       `json:"changed"`
	KeyTaken []task.ID `json:"key_taken,omitempty"` // still dead: another task has their key
	Left     []task.ID `json:"left,omitempty"`      // no longer dead, or deleted
}

func (b Bulk) done() int { return b.Changed + len(b.KeyTaken) + len(b.Left) }

// RetryDead makes the dead ones among the tasks pending: due now, with all their attempts. It changes them in
// transactions of BulkBatch, and calls progress, unless it is nil, after each with the number of tasks that are done. After an
// error, the remaining tasks can be retried by another call. Select reads the ids of all dead tasks, or of some.
func (c *Console) RetryDead(ctx context.Context, ids []task.ID, progress func(done int)) (Bulk, error) {
	return c.changeDead(ctx, ids, retry, progress)
}

// DiscardDead cancels the dead ones among the tasks, as RetryDead retries them. They are kept until their retention ends.
func (c *Console) DiscardDead(ctx context.Context, ids []task.ID, progress func(done int)) (Bulk, error) {
	return c.changeDead(ctx, ids, discard, progress)
}

func (c *Console) changeDead(ctx context.Context, ids []task.ID, v deadVerb, progress func(done int)) (Bulk, error) {
	var sum Bulk
	for part := range slices.Chunk(ids, BulkBatch) {
		out, err := c.changeDeadBatch(ctx, part, v)
		sum.Changed += out.changed
		sum.KeyTaken = append(sum.KeyTaken, out.keyTaken...)
		sum.Left = append(sum.Left, out.left...)
		if err != nil {
			return sum, err
		}
		advance(progress, sum.done())
	}
	return sum, nil
}

// RetryOne is RetryDead for one task. Its error says why the task can't be retried: task.ErrNotFound, task.ErrNotDead,
// one that is task.ErrFinished, task.ErrKeyTaken, or task.ErrOwnerBlocked.
func (c *Console) RetryOne(ctx context.Context, id task.ID) (Task, error) {
	return c.RetryVersion(ctx, id, 0)
}

// RetryVersion is RetryOne for a task as its caller has seen it: if it has another version now, the error is ErrMeanwhile. Version
// 0 stands for any.
func (c *Console) RetryVersion(ctx context.Context, id task.ID, version int64) (Task, error) {
	return c.changeOneDead(ctx, id, version, retry)
}

// DiscardVersion is DiscardDead for one task, as RetryVersion is RetryDead.
func (c *Console) DiscardVersion(ctx context.Context, id task.ID, version int64) (Task, error) {
	return c.changeOneDead(ctx, id, version, discard)
}

func (c *Console) changeOneDead(ctx context.Context, id task.ID, version int64, v deadVerb) (Task, error) {
	var changed task.Task
	err := c.inTx(ctx, func(tx *sqlx.Tx, changes *ledger.Tx) error {
		rows, err := c.store.Lock(ctx, tx, []task.ID{id})
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return task.ErrNotFound
		}
		if changed, err = v.next(rows[0], changes.Moment()); err != nil {
			return err
		}
		if stands := rows[0].Version; version > 0 && stands != version {
			return fmt.Errorf("%w: version %d, seen was %d", ErrMeanwhile, stands, version)
		}
		return changes.Write(ctx, []task.Change{{Before: rows[0], After: changed}}, "")
	})
	if err != nil {
		return Task{}, fmt.Errorf("%s %s: %w", v.name, id, err)
	}
	return TaskOf(changed), nil
}

// deadOutcome is the result of one batch.
type deadOutcome struct {
	changed  int
	keyTaken []task.ID
	left     []task.ID
}

// changeDeadBatch changes the tasks in one transaction. If one of them can't have its key, or has a blocked owner, each task has
// its own transaction. Beside an error it returns what was committed before.
func (c *Console) changeDeadBatch(ctx context.Context, ids []task.ID, v deadVerb) (deadOutcome, error) {
	out, err := c.changeDeadTogether(ctx, ids, v)
	if !errors.Is(err, task.ErrKeyTaken) && !errors.Is(err, task.ErrOwnerBlocked) {
		return out, err
	}
	var all deadOutcome
	for _, id := range ids {
		out, err := c.changeDeadTogether(ctx, []task.ID{id}, v)
		if errors.Is(err, task.ErrKeyTaken) {
			all.keyTaken = append(all.keyTaken, id)
			continue
		}
		if errors.Is(err, task.ErrOwnerBlocked) {
			all.left = append(all.left, id)
			continue
		}
		if err != nil {
			return all, err
		}
		all.changed += out.changed
		all.left = append(all.left, out.left...)
	}
	return all, nil
}

func (c *Console) changeDeadTogether(ctx context.Context, ids []task.ID, v deadVerb) (deadOutcome, error) {
	var out deadOutcome
	err := c.inTx(ctx, func(tx *sqlx.Tx, changes *ledger.Tx) error {
		rows, err := c.store.Lock(ctx, tx, ids)
		if err != nil {
			return err
		}
		out = deadOutcome{}
		var list []task.Change
		changed := map[task.ID]bool{}
		for _, row := range rows {
			if next, err := v.next(row, changes.Moment()); err == nil {
				list = append(list, task.Change{Before: row, After: next})
				changed[row.ID] = true
			}
		}
		for _, id := range ids {
			if !changed[id] {
				out.left = append(out.left, id)
			}
		}
		out.changed = len(list)
		return changes.Write(ctx, list, "")
	})
	if err != nil {
		return deadOutcome{}, err
	}
	return out, nil
}

// LeftTask is a task that was not changed, and why.
type LeftTask struct {
	ID     task.ID
	Reason error // task.ErrNotFound, task.ErrNotDead, one that is task.ErrFinished, task.ErrOwnerBlocked, or ErrDiedSince
}

// ErrDiedSince is the reason for a task that was not dead when the change read it, and is dead now.
var ErrDiedSince = errors.New("task was not dead when it was looked at")

// WhyLeft returns why a bulk change left the tasks unchanged, in the order of their ids.
func (c *Console) WhyLeft(ctx context.Context, ids []task.ID) ([]LeftTask, error) {
	ids = slices.SortedFunc(slices.Values(ids), task.ID.Compare)
	rows, err := c.store.Get(ctx, nil, ids)
	if err != nil {
		return nil, err
	}
	reasons := make(map[task.ID]error, len(rows))
	for _, row := range rows {
		_, err := row.Retry(row.UpdatedAt)
		if err == nil {
			_, blocked, readErr := c.store.NowAndBlocked(ctx, nil, []string{row.Owner})
			if readErr != nil {
				return nil, readErr
			}
			if blocked != "" {
				err = task.ErrOwnerBlocked
			}
		}
		reasons[row.ID] = cmp.Or(err, ErrDiedSince)
	}
	left := make([]LeftTask, len(ids))
	for i, id := range ids {
		left[i] = LeftTask{id, cmp.Or(reasons[id], task.ErrNotFound)}
	}
	return left, nil
}
