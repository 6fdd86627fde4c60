package store

import (
	"context"
	"database/sql/driver"
	"time"

	"github.com/duetime/duetime/internal/statement"
)

// chain saves a busy session the BEGIN of its transactions, one statement of five in a worker's batch: COMMIT AND CHAIN
// also begins the next transaction. That transaction is empty: it has no snapshot and no lock until its first statement.
// The session rolls it back if it isn't used within maxChainedAge, or before an autocommit statement, which must not run
// in it. If the connection died meanwhile, BEGIN fails, and can be tried on another connection. If we cannot tell whether
// the chained transaction ended, the connection is discarded.
//
// A server, or a proxy before it, that ignores AND CHAIN would run the next batch statement by statement, and commit
// each. So each connection checks once, after its first COMMIT AND CHAIN, whether a transaction is open: only within a
// transaction can a savepoint that was set be released. If none is open, the connection begins all its transactions by
// BEGIN.
type chain struct {
	enabled   bool
	confirmed bool      // COMMIT AND CHAIN begins a transaction on this connection
	began     time.Time // when the open, empty transaction began; zero for none
}

const (
	maxChainedAge  = time.Second
	chainSavepoint = "duetime_chained"
)

// open reports whether the session is in an empty transaction.
func (c *chain) open() bool { return !c.began.IsZero() }

// begin uses the transaction that is open, or begins one.
func (c *conn) begin(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if o != (driver.TxOptions{}) { // the driver sends the options before its BEGIN, outside of any transaction
		if err := c.endChained(ctx); err != nil {
			return nil, err
		}
	}
	open, fresh := c.chain.open(), time.Since(c.chain.began) < maxChainedAge
	c.chain.began = time.Time{}
	if open && fresh {
		confirmed, err := c.confirmChained(ctx)
		if err != nil {
			c.broken = true
			return nil, driver.ErrBadConn // nothing of the caller's was sent
		}
		if confirmed {
			return chainedTx{c}, nil
		}
	}
	inner, err := c.beginTx(ctx, o) // BEGIN also ends an open transaction
	c.broken = c.broken || open && err != nil
	return inner, err
}

// confirmChained reports whether the chained transaction is open, and turns chaining off if it isn't.
func (c *conn) confirmChained(ctx context.Context) (bool, error) {
	if c.chain.confirmed {
		return true, nil
	}
	if err := c.execBare(ctx, "SAVEPOINT "+chainSavepoint); err != nil {
		return false, err
	}
	err := c.execBare(ctx, "RELEASE SAVEPOINT "+chainSavepoint)
	if statement.NoSavepoint(err) {
		c.chain.enabled = false
		return false, nil
	}
	c.chain.confirmed = err == nil
	return c.chain.confirmed, err
}

// commit ends the transaction, and begins the next one if connections chain.
func (t *tx) commit() error {
	if !t.chains {
		return t.inner.Commit()
	}
	if err := t.conn.execBare(context.Background(), "COMMIT AND CHAIN"); err != nil {
		return err
	}
	t.conn.chain.began = time.Now()
	return nil
}

// endChained rolls back the empty transaction, if one is open.
func (c *conn) endChained(ctx context.Context) error {
	if !c.chain.open() {
		return nil
	}
	c.chain.began = time.Time{}
	err := c.execBare(ctx, "ROLLBACK")
	c.broken = c.broken || err != nil
	return err
}

// chainedTx is a transaction that the driver doesn't know.
type chainedTx struct{ conn *conn }

// Commit commits the transaction.
func (t chainedTx) Commit() error { return t.conn.execBare(context.Background(), "COMMIT") }

// Rollback rolls the transaction back.
func (t chainedTx) Rollback() error { return t.conn.execBare(context.Background(), "ROLLBACK") }
