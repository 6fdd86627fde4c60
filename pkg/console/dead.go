package console

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// deadVerb is a change of a dead task. Bulk changes many.
type deadVerb struct {
	name string
	next func(task.Task, time.Time) (task.Task, error)
}

var (
	retry   = deadVerb{"retry", transition.Retry}
	discard = deadVerb{"discard", transition.Dismiss}
)

// Retry makes a dead task pending: due now, with all its attempts. Its error says why the task can't be retried: task.ErrNotFound,
// task.ErrNotDead, one that is task.ErrFinished, task.ErrKeyTaken, or task.ErrOwnerBlocked. If the task no longer has the version that
// its caller has seen, the error is ErrMeanwhile; version 0 stands for any.
func (c *Console) Retry(ctx context.Context, id task.ID, version int64) (Task, error) {
	return c.changeOneDead(ctx, id, version, retry)
}

// Discard cancels a dead task, of the version as Retry has it. The task is kept until its retention ends.
func (c *Console) Discard(ctx context.Context, id task.ID, version int64) (Task, error) {
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
			return meanwhile{stands: stands, seen: version}
		}
		return changes.Write(ctx, []transition.Change{{Before: rows[0], After: changed}})
	})
	if err != nil {
		return Task{}, fmt.Errorf("%s %s: %w", v.name, id, err)
	}
	return TaskOf(changed), nil
}
