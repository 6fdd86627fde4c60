package store

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/go-sql-driver/mysql"
)

// The race that the guard of a connection closes:
//
//  1. A handler, the 41st of a batch of 100 in one transaction, updates a pet that somebody else holds. The server finds a
//     deadlock, rolls the WHOLE transaction back, and answers 1213.
//  2. The handler logs the error and returns nil.
//  3. The connection is no longer in a transaction. The statements of handlers 42 to 100 and "mark all 100 done" commit one by
//     one, and the COMMIT at the end answers OK, as it does outside any transaction.
//  4. The effects of 1 to 40 are lost, and their tasks are done.
//
// So the connection itself remembers: after an error that may have ended the transaction, each further statement and the COMMIT
// fail until the ROLLBACK, whatever the caller made of the first error. An error counts wherever it comes up: from a statement,
// from a prepared one, while rows are read, or while unread rows are drained. These errors count too:
//   - a lock wait timeout (1205): under innodb_rollback_on_timeout it ends the transaction and not only its statement;
//   - a full disk: the server takes back one statement, and the worker would charge the task whose handler ran into it;
//   - a statement cut off by its context: MySQL's driver closes the connection then, and SQLite rolls back;
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

// Commit sends the COMMIT only if the transaction still stands. Otherwise it rolls back what may be left of the transaction,
// since database/sql gives the connection to others afterwards.
func (t *tx) Commit() error {
	if t.conn.cause == nil && !t.conn.alive() {
		t.conn.cause = mysql.ErrInvalidConn // cut off between two statements: the COMMIT was never sent
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

// Rollback ends the transaction and lifts the refusal.
func (t *tx) Rollback() error {
	t.conn.inTx, t.conn.cause = false, nil
	return t.ended(t.inner.Rollback())
}

// ended discards the connection of a transaction that could not be ended. Where the server, or a proxy, refused the COMMIT or
// the ROLLBACK and kept the connection, the transaction may still be open, and the next BEGIN would commit it.
func (t *tx) ended(err error) error {
	if classOf(err) == ReadOnly {
		t.conn.retirePool()
	}
	t.conn.broken = t.conn.broken || err != nil
	return err
}
