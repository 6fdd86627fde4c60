package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"
)

// The race that this file closes:
//
//  1. A handler, the 41st of a batch of 100 in one transaction, updates a pet that somebody else holds; the server finds
//     a deadlock, rolls the WHOLE transaction back, and answers 1213.
//  2. The handler logs the error and returns nil.
//  3. The connection is no longer in a transaction. The statements of handlers 42 to 100 and "mark all 100 done" commit
//     one by one, each for itself, and the COMMIT at the end answers OK, as it does outside any transaction.
//  4. The effects of 1 to 40 are gone, and their tasks are done.
//
// So the connection itself remembers: after an error that may have ended the transaction, each further statement and
// the COMMIT fail until the ROLLBACK, whatever anybody made of the first error. An error counts wherever it comes up:
// from a statement, from a prepared one, while rows are read, or while unread rows are drained. A lock wait timeout
// (1205) ends only its statement on a default server, but the whole transaction under innodb_rollback_on_timeout, so it
// counts too. So does a full disk, which is nobody's fault in the transaction: the server takes back the one statement,
// and the task whose handler ran into it would be charged. So does a statement cut off by its context: MySQL's driver
// closes the connection then, and SQLite rolls back. SQLite also rolls back by itself when its disk is full or fails.

// connector makes guarded connections and greets each new one with statements.
type connector struct {
	inner    driver.Connector
	greeting []string // see greeting
	chains   bool     // see chain
	keeps    bool     // refuses statements that would end a transaction; see note

	era atomic.Int64 // raised when a server was found to be read-only: connections of earlier ones are closed
}

func (c *connector) Driver() driver.Driver { return c.inner.Driver() }

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	era := c.era.Load()
	inner, err := c.inner.Connect(ctx)
	if err != nil {
		return nil, refusedConnection(err)
	}
	g := &conn{Conn: inner, of: c, era: era, greeting: c.greeting, chain: chain{on: c.chains}}
	if err := g.greet(ctx); err != nil {
		_ = inner.Close() // the greeting's error says more
		if Classify(err) == BadSetting {
			return nil, refusedConnection(err)
		}
		return nil, fmt.Errorf("set up the session: %w", err)
	}
	return g, nil
}

// conn is one guarded connection. database/sql never uses a connection from two goroutines at once.
type conn struct {
	driver.Conn
	of       *connector
	era      int64
	greeting []string
	inTx     bool
	cause    error // of the poisoning; nil while the transaction stands
	broken   bool  // a transaction did not end as it was told, or nobody knows whether it did
	left     bool  // a caller has left something in the session, which would meet the next one
	chain    chain
}

// refusal answers every statement of a lost transaction.
func (c *conn) refusal() error {
	if c.cause == nil {
		return nil
	}
	return &PoisonedError{Cause: c.cause}
}

// heed passes an error on and remembers one that may have ended the transaction.
func (c *conn) heed(err error) error {
	if err == nil {
		return nil
	}
	class := classOf(err)
	if class == ReadOnly {
		c.forsake()
		_ = c.Close() // a server that refuses to write is of no use
		err, class = driver.ErrBadConn, Lost
	}
	if c.inTx && c.cause == nil && class.endsTx() {
		c.cause = err
	}
	return err
}

func (c *conn) alive() bool {
	v, ok := c.Conn.(driver.Validator)
	return !ok || v.IsValid()
}

// IsValid tells database/sql whether the connection may serve again.
func (c *conn) IsValid() bool { return !c.broken && !c.left && c.alive() }

// ResetSession is called before the connection serves anew.
func (c *conn) ResetSession(ctx context.Context) error {
	if c.broken || c.inTx || c.era != c.of.era.Load() {
		return driver.ErrBadConn
	}
	if r, ok := c.Conn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

func (c *conn) Ping(ctx context.Context) error {
	if p, ok := c.Conn.(driver.Pinger); ok {
		return c.heed(p.Ping(ctx))
	}
	return nil
}

func (c *conn) CheckNamedValue(nv *driver.NamedValue) error {
	if n, ok := c.Conn.(driver.NamedValueChecker); ok {
		return n.CheckNamedValue(nv)
	}
	return driver.ErrSkip
}

func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	inner, err := c.begin(ctx, o)
	if err != nil {
		return nil, err
	}
	c.inTx, c.cause = true, nil
	return &tx{inner: inner, conn: c, chains: c.chain.on && o == (driver.TxOptions{})}, nil
}

func (c *conn) beginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	b, ok := c.Conn.(driver.ConnBeginTx)
	if !ok {
		return nil, errors.New("driver can't begin a transaction with a context")
	}
	return b.BeginTx(ctx, o)
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	e, ok := c.Conn.(driver.ExecerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	if err := c.note(query); err != nil {
		return nil, err
	}
	r, err := e.ExecContext(ctx, query, args)
	return r, c.heed(err)
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	q, ok := c.Conn.(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	if err := c.note(query); err != nil {
		return nil, err
	}
	r, err := q.QueryContext(ctx, query, args)
	if err == nil && strings.HasPrefix(query, checkedPrefix) {
		return &rows{Rows: r, conn: c, checks: true}, nil
	}
	return c.rows(r, err)
}

func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	p, ok := c.Conn.(driver.ConnPrepareContext)
	if !ok {
		return nil, errors.New("driver can't prepare with a context")
	}
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	if err := c.note(query); err != nil {
		return nil, err
	}
	s, err := p.PrepareContext(ctx, query)
	if err != nil {
		return nil, c.heed(err)
	}
	return &stmt{Stmt: s, conn: c, ends: statementEnds(ctx)}, nil
}

func (c *conn) rows(r driver.Rows, err error) (driver.Rows, error) {
	if err != nil {
		return nil, c.heed(err)
	}
	return &rows{Rows: r, conn: c}, nil
}

// tx is one guarded transaction.
type tx struct {
	inner  driver.Tx
	conn   *conn
	chains bool // its commit begins another one
}

// Commit sends the COMMIT only if the transaction still stands; otherwise it rolls back what may be left of it, since
// database/sql gives the connection to others afterwards.
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

// ended lets nobody use the connection of a transaction that could not be ended: where the server, or a proxy, refused the
// COMMIT or the ROLLBACK and kept the connection, the transaction may still be open, and the next BEGIN would commit it.
func (t *tx) ended(err error) error {
	if classOf(err) == ReadOnly {
		t.conn.forsake()
	}
	t.conn.broken = t.conn.broken || err != nil
	return err
}

// rows is one result of a guarded connection.
type rows struct {
	driver.Rows
	conn   *conn
	checks bool // the first row begins with the server's state
}

func (r *rows) Next(dest []driver.Value) error {
	err := r.Rows.Next(dest)
	if err == io.EOF { //nolint:errorlint // the driver interface wants exactly io.EOF
		return err
	}
	if err == nil && r.checks {
		r.checks = false
		if err = (writable{}).Scan(dest[0]); err != nil {
			r.conn.forsake()
		}
	}
	return r.conn.heed(err)
}

// forsake has this connection, and all others that were made before, serve nobody any more.
func (c *conn) forsake() {
	c.broken = true
	c.of.era.Add(1)
}

// Close drains what was not read, and may find the transaction lost there.
func (r *rows) Close() error { return r.conn.heed(r.Rows.Close()) }

func (r *rows) HasNextResultSet() bool {
	n, ok := r.Rows.(driver.RowsNextResultSet)
	return ok && n.HasNextResultSet()
}

func (r *rows) NextResultSet() error {
	n, ok := r.Rows.(driver.RowsNextResultSet)
	if !ok {
		return io.EOF
	}
	err := n.NextResultSet()
	if err == io.EOF { //nolint:errorlint // the driver interface wants exactly io.EOF
		return err
	}
	return r.conn.heed(err)
}

func (r *rows) ColumnTypeDatabaseTypeName(i int) string {
	if c, ok := r.Rows.(driver.RowsColumnTypeDatabaseTypeName); ok {
		return c.ColumnTypeDatabaseTypeName(i)
	}
	return ""
}

func (r *rows) ColumnTypeScanType(i int) reflect.Type {
	if c, ok := r.Rows.(driver.RowsColumnTypeScanType); ok {
		return c.ColumnTypeScanType(i)
	}
	return reflect.TypeFor[any]()
}

func (r *rows) ColumnTypeNullable(i int) (nullable, ok bool) {
	if c, ok := r.Rows.(driver.RowsColumnTypeNullable); ok {
		return c.ColumnTypeNullable(i)
	}
	return false, false
}

func (r *rows) ColumnTypeLength(i int) (int64, bool) {
	if c, ok := r.Rows.(driver.RowsColumnTypeLength); ok {
		return c.ColumnTypeLength(i)
	}
	return 0, false
}

func (r *rows) ColumnTypePrecisionScale(i int) (precision, scale int64, ok bool) {
	if c, ok := r.Rows.(driver.RowsColumnTypePrecisionScale); ok {
		return c.ColumnTypePrecisionScale(i)
	}
	return 0, 0, false
}

// What database/sql looks for in a connection and its parts.
var (
	_ driver.ConnBeginTx        = (*conn)(nil)
	_ driver.ConnPrepareContext = (*conn)(nil)
	_ driver.ExecerContext      = (*conn)(nil)
	_ driver.QueryerContext     = (*conn)(nil)
	_ driver.Pinger             = (*conn)(nil)
	_ driver.SessionResetter    = (*conn)(nil)
	_ driver.Validator          = (*conn)(nil)
	_ driver.NamedValueChecker  = (*conn)(nil)
	_ driver.StmtExecContext    = (*stmt)(nil)
	_ driver.StmtQueryContext   = (*stmt)(nil)
	_ driver.NamedValueChecker  = (*stmt)(nil)
	_ driver.RowsNextResultSet  = (*rows)(nil)
	_ driver.Connector          = (*connector)(nil)
)
