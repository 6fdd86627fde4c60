package store

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/go-sql-driver/mysql"
)

// The guard of a connection closes this race:
//
//  1. A handler, the 41st of a batch of 100 in one transaction, updates a pet that another transaction holds. The server finds a
//     deadlock, rolls the WHOLE transaction back, and answers 1213.
//  2. The handler logs the error and returns nil.
//  3. The connection is no longer in a transaction. The statements of handlers 42 to 100 and "mark all 100 done" commit one by
//     one, and the COMMIT at the end answers OK, as it does outside any transaction.
//  4. The effects of 1 to 40 are lost, and their tasks are done.
//
// So the connection itself remembers: after an error that may have ended the transaction, each further statement and the
// COMMIT fail until the ROLLBACK, however the caller handled the first error. An error counts wherever it occurs: in a
// statement, in a prepared one, while rows are read, or while unread rows are drained. These errors count too:
//   - a lock wait timeout (1205): under innodb_rollback_on_timeout it ends the transaction and not only its statement;
//   - a full disk: the server undoes one statement, and the worker would charge the task whose handler met the error;
//   - a statement that its context cut off: MySQL's driver closes the connection then, and SQLite rolls back;
//   - SQLite's full or failing disk: SQLite rolls back by itself.

func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	inner, err := c.begin(ctx, o)
	if err != nil {
		return nil, err
	}
	c.inTx, c.cause = true, nil
	return &tx{inner: inner, conn: c, chains: c.chain.enabled && o == (driver.TxOptions{})}, nil
}

func (c *conn) beginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	b, ok := c.Conn.(driver.ConnBeginTx)
	if !ok {
		return nil, errors.New("driver can't begin a transaction with a context")
	}
	return b.BeginTx(ctx, o)
}

// tx is one guarded transaction.
type tx struct {
	inner  driver.Tx
	conn   *conn
	chains bool // its COMMIT begins the next transaction
}

// Commit sends the COMMIT only if the transaction still stands. Otherwise it rolls back the rest of the transaction,
// since database/sql then gives the connection to other callers.
func (t *tx) Commit() error {
	if t.conn.cause == nil && !t.conn.alive() {
		t.conn.cause = mysql.ErrInvalidConn // the connection broke between two statements: the COMMIT was never sent
	}
	if err := t.conn.refusal(); err != nil {
		_ = t.Rollback() // the refusal says more
		return err
	}
	t.conn.inTx = false
	err := t.ended(t.commit())
	if err != nil && !provesNoEffect(err, ofEveryCommit) {
		return &ambiguousError{cause: err}
	}
	return err
}

// Rollback ends the transaction. Afterwards statements are accepted again.
func (t *tx) Rollback() error {
	t.conn.inTx, t.conn.cause = false, nil
	return t.ended(t.inner.Rollback())
}

// ended discards the connection of a transaction that could not be ended. If the server, or a proxy, refused the COMMIT
// or the ROLLBACK and kept the connection, the transaction may still be open, and the next BEGIN would commit it.
func (t *tx) ended(err error) error {
	if classOf(err) == ReadOnly {
		t.conn.retirePool()
	}
	t.conn.broken = t.conn.broken || err != nil
	return err
}
