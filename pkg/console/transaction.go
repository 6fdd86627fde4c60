package console

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

const maxTries = 5 // of a transaction that met a deadlock or a conflict

// inTx runs fn in a transaction and commits. It runs fn again after a deadlock or a conflict.
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
	return tx.Commit()
}

// record writes a line of history that belongs to no task.
func (c *Console) record(ctx context.Context, tx *sqlx.Tx, now time.Time, event, detail string) error {
	return c.store.Record(ctx, tx, []task.Event{{At: now, Name: event, Actor: c.cfg.Actor, Detail: detail}})
}
