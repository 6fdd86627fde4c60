package console

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

const maxTries = 5 // of a transaction that met a deadlock or a conflict

// inTx runs fn in a transaction and commits. It runs fn again after a deadlock or a conflict, but not after
// schedule.ErrCommitUnknown: the change may have been made.
func (c *Console) inTx(ctx context.Context, fn func(tx *sqlx.Tx, now time.Time) error) error {
	for try := 1; ; try++ {
		err := c.tryTx(ctx, fn)
		if err == nil || try == maxTries || ctx.Err() != nil || !c.store.Retryable(err) {
			return err
		}
	}
}

func (c *Console) tryTx(ctx context.Context, fn func(tx *sqlx.Tx, now time.Time) error) error {
	tx, err := c.store.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	now, err := c.store.Now(ctx, tx)
	if err != nil {
		return err
	}
	if err := fn(tx, now); err != nil {
		return err
	}
	err = tx.Commit()
	if c.store.Ambiguous(err) {
		err = fmt.Errorf("%w: %w", schedule.ErrCommitUnknown, err)
	}
	return err
}

// compensate has the daemon look at the tasks of a transaction if its error leaves open whether it has committed. Without that,
// a retried task would have no entry until a sweep finds its row.
func (c *Console) compensate(err error, tasks []task.Task) {
	if errors.Is(err, schedule.ErrCommitUnknown) {
		c.client.CompensateTasks(tasks)
	}
}

// record writes a line of history that belongs to no task.
func (c *Console) record(ctx context.Context, tx *sqlx.Tx, now time.Time, event, detail string) error {
	return c.store.Record(ctx, tx, []task.Event{{At: now, Name: event, Actor: c.cfg.Actor, Detail: detail}})
}
