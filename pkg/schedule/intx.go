package schedule

import (
	"context"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/ledger"
)

// transactions are what InTx and Join need of the store.
type transactions interface {
	ledger.Store
	// CheckIsolation refuses a session that is not at READ COMMITTED.
	CheckIsolation(ctx context.Context, q sqlx.QueryerContext) error
}

// InTx runs fn in a transaction at READ COMMITTED and commits. The tasks that it touched are put into the index behind the
// caller's back, unless callers in bulk schedule faster than the index accepts: then it waits for room, at most Config.IndexWait, and
// that again for each 10 tasks.
// After a deadlock or a lock wait it runs fn again, whole and in a new transaction, so fn must set what it returns afresh
// each time. It returns nil exactly if the transaction committed, whatever became of the index. An error of fn rolls back
// and comes out as it is; so does a panic. After ErrCommitUnknown, fn has run and may have committed; it is never run again
// then: the answer of COMMIT was lost, or one of fn's own statements has ended the transaction. task.ErrRunning comes out at
// once: its try has waited for the lock already.
//
// tx ends with fn, and with ctx.
func (c *Client) InTx(ctx context.Context, fn func(tx *Tx) error) error {
	var tx *Tx
	err := c.ledger.Run(ctx, func(began *sqlx.Tx) (*ledger.Tx, error) {
		tx = c.begin(began)
		return tx.ledger, tx.run(ctx, fn)
	})
	if err == nil {
		c.awaitBlocks(ctx, tx)
	}
	return err
}

// begin makes the Tx of a transaction that has begun.
func (c *Client) begin(began *sqlx.Tx) *Tx {
	tx := NewTx(began, c.store).As(c.cfg.Actor)
	tx.kinds, tx.tracer, tx.before, tx.settler = c.cfg.Kinds, c.tracer, c.cfg.BeforeSchedule, c.cfg.Settler
	return tx
}

// run calls fn, and checks what its statements have left of the transaction.
func (t *Tx) run(ctx context.Context, fn func(tx *Tx) error) error {
	err := fn(t)
	hidden, ended := t.watch.Release(ctx, t.db)
	if ended != nil {
		return errors.Join(fmt.Errorf("%w: %w", ErrCommitUnknown, ended), err)
	}
	if err != nil || !hidden {
		return err
	}
	return t.ledger.CheckUndone(ctx)
}

// awaitBlocks waits until every process refuses tasks of the owners that the transaction has blocked.
func (c *Client) awaitBlocks(ctx context.Context, tx *Tx) {
	if tx.blocks {
		c.store.AwaitBlocks(ctx)
	}
}

// inTx returns what fn returned in the transaction that committed.
func inTx[T any](ctx context.Context, c *Client, fn func(tx *Tx) (T, error)) (T, error) {
	var out, none T
	err := c.InTx(ctx, func(tx *Tx) (err error) {
		out, err = fn(tx)
		return err
	})
	if err != nil {
		return none, err
	}
	return out, nil
}
