package store

import (
	"context"
	"database/sql/driver"
	"time"
)

// chain saves a busy session the BEGIN of its transactions, one statement of five in a worker's batch: COMMIT AND CHAIN begins
// the next transaction too. That one is empty: it has no snapshot and no lock until its first statement. The session ends it by
// a ROLLBACK if it isn't taken within maxChainedAge, or before an autocommit statement, so that nothing runs in it by accident.
// A connection that died meanwhile is found out by BEGIN, which can be tried on another connection. If we cannot tell whether
// the chained transaction ended, the connection is discarded.
//
// A server, or a proxy before it, that ignores AND CHAIN would run the next batch statement by statement, each committed by
// itself. So each connection is asked once, after its first COMMIT AND CHAIN, whether a transaction is open: a savepoint that
// was set can be released only within one. If none is open, the connection begins all its transactions by BEGIN.
type chain struct {
	enabled   bool
	confirmed bool      // a COMMIT AND CHAIN begins a transaction here
	began     time.Time // of the transaction that is open and empty; zero for none
}

const (
	maxChainedAge  = time.Second
	chainSavepoint = "duetime_chained"
	noSavepoint    = 1305 // MySQL's answer where the savepoint does not exist
)

// open reports whether the session is in an empty transaction.
func (c *chain) open() bool { return !c.began.IsZero() }

// begin takes the transaction that is open, or begins one.
func (c *conn) begin(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if o != (driver.TxOptions{}) { // which the driver says before its BEGIN
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
	inner, err := c.beginTx(ctx, o) // ends the one that is open
	c.broken = c.broken || open && err != nil
	return inner, err
}

// confirmChained reports whether the transaction that should be open is, and turns chaining off if it isn't.
func (c *conn) confirmChained(ctx context.Context) (bool, error) {
	if c.chain.confirmed {
		return true, nil
	}
	if err := c.execBare(ctx, "SAVEPOINT "+chainSavepoint); err != nil {
		return false, err
	}
	err := c.execBare(ctx, "RELEASE SAVEPOINT "+chainSavepoint)
	if serverNumber(err) == noSavepoint {
		c.chain.enabled = false
		return false, nil
	}
	c.chain.confirmed = err == nil
	return c.chain.confirmed, err
}

// commit ends the transaction, and begins the next one where connections chain.
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

// endChained ends the empty transaction, if one is open.
func (c *conn) endChained(ctx context.Context) error {
	if !c.chain.open() {
		return nil
	}
	c.chain.began = time.Time{}
	err := c.execBare(ctx, "ROLLBACK")
	c.broken = c.broken || err != nil
	return err
}

// chainedTx is a transaction that the driver doesn't know of.
type chainedTx struct{ conn *conn }

// Commit makes the transaction's changes last.
func (t chainedTx) Commit() error { return t.conn.execBare(context.Background(), "COMMIT") }

// Rollback undoes the transaction.
func (t chainedTx) Rollback() error { return t.conn.execBare(context.Background(), "ROLLBACK") }
