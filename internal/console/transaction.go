package console

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

const maxTries = 5 // of a transaction that ran into another

// inTx runs fn in a transaction and commits. It runs fn several times if the transaction ran into another one.
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
	defer func() { _ = tx.Rollback() }() // after the commit it does nothing
	now, err := c.store.Now(ctx, tx)
	if err != nil {
		return err
	}
	if err := fn(tx, now); err != nil {
		return err
	}
	return tx.Commit()
}

// record writes a line about something that is no task.
func (c *Console) record(ctx context.Context, tx *sqlx.Tx, now time.Time, event, detail string) error {
	return c.store.Record(ctx, tx, []task.Event{{At: now, Name: event, Actor: c.cfg.Actor, Detail: detail}})
}
