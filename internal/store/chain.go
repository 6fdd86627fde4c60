package store

import (
	"context"
	"database/sql/driver"
	"time"
)

// chain saves a busy session the BEGIN of its transactions, one statement of five in a worker's batch: COMMIT AND CHAIN
// begins the next one too. That one is empty: it has no snapshot and no lock until its first statement. If it isn't taken
// soon, or before a statement of its own, the session ends it and goes on as any other, so that nothing runs in it by
// accident, and a connection that died meanwhile is found out by BEGIN, which can be tried again on another one. A session
// of which nobody knows whether it has ended serves nobody any more.
//
// A server, or a proxy before it, that ignores AND CHAIN would run the next batch statement by statement, each committed by
// itself. So each connection is asked once, after its first COMMIT AND CHAIN, whether a transaction is open: a savepoint that
// was set can be released within one only. If none is, the connection begins all its transactions by BEGIN.
type chain struct {
	on    bool
	sure  bool      // that a COMMIT AND CHAIN begins a transaction
	began time.Time // of the transaction that is open and empty; zero for none
}

const (
	chainFor = time.Second
	chained  = "duetime_chained" // the savepoint
)

// open reports whether the session is in an empty transaction.
func (c *chain) open() bool { return !c.began.IsZero() }

// begin takes the transaction that is open, or begins one.
func (c *conn) begin(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if o != (driver.TxOptions{}) { // which the driver says before its BEGIN
		if err := c.unchain(ctx); err != nil {
			return nil, err
		}
	}
	open, fresh := c.chain.open(), time.Since(c.chain.began) < chainFor
	c.chain.began = time.Time{}
	if open && fresh {
		stands, err := c.stands(ctx)
		if err != nil {
			c.broken = true
			return nil, driver.ErrBadConn // nothing of the caller's was sent
		}
		if stands {
			return statements{c}, nil
		}
	}
	inner, err := c.beginTx(ctx, o) // ends the one that is open
	c.broken = c.broken || open && err != nil
	return inner, err
}

// stands reports whether the transaction that should be open is, and has the connection chain no more if it isn't.
func (c *conn) stands(ctx context.Context) (bool, error) {
	if c.chain.sure {
		return true, nil
	}
	if err := c.say(ctx, "SAVEPOINT "+chained); err != nil {
		return false, err
	}
	err := c.say(ctx, "RELEASE SAVEPOINT "+chained)
	if serverNumber(err) == noSavepoint {
		c.chain.on = false
		return false, nil
	}
	c.chain.sure = err == nil
	return c.chain.sure, err
}

// noSavepoint is MySQL's answer where the savepoint does not exist.
const noSavepoint = 1305

// commit ends the transaction, and begins the next one where connections chain.
func (t *tx) commit() error {
	if !t.chains {
		return t.inner.Commit()
	}
	if err := t.conn.say(context.Background(), "COMMIT AND CHAIN"); err != nil {
		return err
	}
	t.conn.chain.began = time.Now()
	return nil
}

// ready makes sure that a statement runs where its caller thinks: not in a lost transaction, and not in the empty one.
func (c *conn) ready(ctx context.Context) error {
	if err := c.refusal(); err != nil || c.inTx {
		return err
	}
	return c.unchain(ctx)
}

// unchain ends the empty transaction, if one is open.
func (c *conn) unchain(ctx context.Context) error {
	if !c.chain.open() {
		return nil
	}
	c.chain.began = time.Time{}
	err := c.say(ctx, "ROLLBACK")
	c.broken = c.broken || err != nil
	return err
}

// say sends a statement as it is.
func (c *conn) say(ctx context.Context, statement string) error {
	e, ok := c.Conn.(driver.ExecerContext)
	if !ok {
		return driver.ErrSkip
	}
	_, err := e.ExecContext(ctx, statement, nil)
	return err
}

// statements end a transaction that the driver doesn't know of.
type statements struct{ conn *conn }

// Commit makes the transaction's changes last.
func (s statements) Commit() error { return s.conn.say(context.Background(), "COMMIT") }

// Rollback undoes the transaction.
func (s statements) Rollback() error { return s.conn.say(context.Background(), "ROLLBACK") }
