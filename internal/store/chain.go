package store

import (
	"context"
	"database/sql/driver"
	"time"
)

// chain saves a busy session the BEGIN of its transactions, one statement of five in a worker's batch: COMMIT AND CHAIN
// begins the next one too. That one is empty: it has no snapshot and no lock until its first statement. If it isn't taken
// soon, or before a statement of its own, the session ends it and goes on as any other, so that nothing runs in it by
// accident, and a connection that died meanwhile is found out by BEGIN, which can be tried again on another one.
type chain struct {
	on    bool
	began time.Time // of the transaction that is open and empty; zero for none
}

const chainFor = time.Second

// take reports whether the transaction that is open serves one that is asked for.
func (c *chain) take(o driver.TxOptions) bool {
	took := !c.began.IsZero() && time.Since(c.began) < chainFor && o == (driver.TxOptions{})
	c.began = time.Time{} // if it isn't taken, BEGIN ends it
	return took
}

// commit ends the transaction, and begins the next one where connections chain.
func (t *tx) commit() error {
	if !t.conn.chain.on {
		return t.inner.Commit()
	}
	if err := t.conn.say("COMMIT AND CHAIN"); err != nil {
		return err
	}
	t.conn.chain.began = time.Now()
	return nil
}

// ready makes sure that a statement runs where its caller thinks: not in a lost transaction, and not in the empty one.
func (c *conn) ready(ctx context.Context) error {
	if err := c.refusal(); err != nil {
		return err
	}
	if c.inTx || c.chain.began.IsZero() {
		return nil
	}
	c.chain.began = time.Time{}
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.say("ROLLBACK")
}

// say sends a statement as it is.
func (c *conn) say(statement string) error {
	e, ok := c.Conn.(driver.ExecerContext)
	if !ok {
		return driver.ErrSkip
	}
	_, err := e.ExecContext(context.Background(), statement, nil)
	return err
}

// statements end a transaction that the driver doesn't know of.
type statements struct{ conn *conn }

// Commit is what database/sql never calls of it: the guard around it does it.
func (s statements) Commit() error { return s.conn.say("COMMIT") }

// Rollback undoes the transaction.
func (s statements) Rollback() error { return s.conn.say("ROLLBACK") }
