package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/duetime/duetime/internal/statement"
)

// connector makes guarded connections, and runs statements on each new one.
type connector struct {
	inner    driver.Connector
	settings []string // see sessionSettings
	chains   bool     // see chain
	keepsTx  bool     // refuse statements that would end a transaction
	onFull   func()   // see Options

	product atomic.Pointer[product] // of the server, once a connection has asked

	// era is raised when a server was found to be read-only. Connections of earlier eras are closed when they are taken from
	// the pool: they may lead to the old primary too.
	era atomic.Int64
}

func (c *connector) Driver() driver.Driver { return c.inner.Driver() }

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	era := c.era.Load()
	inner, err := c.inner.Connect(ctx)
	if err != nil {
		return nil, refusedConnection(err)
	}
	g := &conn{Conn: inner, of: c, era: era, chain: chain{enabled: c.chains}}
	if err := c.setUp(ctx, g); err != nil {
		_ = inner.Close() // the setting's error says more
		if Classify(err) == BadSetting {
			return nil, refusedConnection(err)
		}
		return nil, fmt.Errorf("set up the session: %w", err)
	}
	return g, nil
}

// setUp runs the settings on a new connection. Vitess knows neither allRows nor COMMIT AND CHAIN.
func (c *connector) setUp(ctx context.Context, g *conn) error {
	for _, set := range c.settings {
		if err := g.execBare(ctx, set); err != nil {
			return err
		}
	}
	if len(c.settings) == 0 { // SQLite
		return nil
	}
	p := c.product.Load()
	if p == nil {
		asked, err := askProduct(ctx, g.Conn)
		if err != nil {
			return err
		}
		p = &asked
		c.product.Store(p)
	}
	if p.name == vitess {
		g.chain.enabled = false
		return nil
	}
	return g.execBare(ctx, allRows)
}

// conn is one guarded connection; the package's doc.go and conn_tx.go describe the failures that it guards against.
// database/sql never uses a connection from two goroutines at once.
type conn struct {
	driver.Conn
	of        *connector
	era       int64
	inTx      bool
	cause     error // of the transaction's loss; nil while the transaction stands
	broken    bool  // ending a transaction failed, or we cannot tell whether it ended
	leftTrace bool  // a caller changed the session, and the next caller must not get it
	chain     chain
}

// refusal answers every statement of a lost transaction.
func (c *conn) refusal() error {
	if c.cause == nil {
		return nil
	}
	return &PoisonedError{Cause: c.cause}
}

// record returns the error, and remembers it if it may have ended the transaction.
func (c *conn) record(err error) error {
	if err == nil {
		return nil
	}
	class := classOf(err)
	if class == ReadOnly {
		c.retirePool()
		_ = c.Close() // a server that refuses writes is useless to us
		err, class = driver.ErrBadConn, Lost
	}
	if class == Full && c.of.onFull != nil {
		c.of.onFull()
	}
	if c.inTx && c.cause == nil && class.endsTx() {
		c.cause = err
	}
	return err
}

// retirePool makes the pool discard this connection and all that were made before it.
func (c *conn) retirePool() {
	c.broken = true
	c.of.era.Add(1)
}

func (c *conn) alive() bool {
	v, ok := c.Conn.(driver.Validator)
	return !ok || v.IsValid()
}

// IsValid tells database/sql whether the connection may be used again.
func (c *conn) IsValid() bool { return !c.broken && !c.leftTrace && c.alive() }

// ResetSession is called before the connection is given to another caller.
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
		return c.record(p.Ping(ctx))
	}
	return nil
}

func (c *conn) CheckNamedValue(nv *driver.NamedValue) error {
	if n, ok := c.Conn.(driver.NamedValueChecker); ok {
		return n.CheckNamedValue(nv)
	}
	return driver.ErrSkip
}

// beforeRun ensures that a statement runs in its caller's transaction: neither in a lost one nor in the chained empty
// one.
func (c *conn) beforeRun(ctx context.Context) error {
	if err := c.refusal(); err != nil || c.inTx {
		return err
	}
	return c.endChained(ctx)
}

// ErrEndsTransaction answers a statement that would have ended its own transaction: the statements before it would have
// been committed, and those after it one by one. The statement was not sent.
var ErrEndsTransaction = errors.New("statement would end the transaction")

// beforeText is beforeRun for a statement's text. It refuses a statement that would end a transaction without its owner's
// knowledge, and remembers one that may change the session. Such a connection is not used again: the next caller would get
// the time limit, the time zone, or the temporary table that hides the real one.
func (c *conn) beforeText(ctx context.Context, query string) error {
	if err := c.beforeRun(ctx); err != nil {
		return err
	}
	effect, word := statement.Describe(query)
	if c.inTx && c.of.keepsTx && effect == statement.Ends {
		return fmt.Errorf("%w: %s", ErrEndsTransaction, word)
	}
	c.leftTrace = c.leftTrace || effect == statement.Opaque || effect == statement.Ends
	return nil
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	e, ok := c.Conn.(driver.ExecerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	if err := c.beforeText(ctx, query); err != nil {
		return nil, err
	}
	r, err := e.ExecContext(ctx, query, args)
	return r, c.record(err)
}

// execBare sends a statement without checks.
func (c *conn) execBare(ctx context.Context, query string) error {
	e, ok := c.Conn.(driver.ExecerContext)
	if !ok {
		return driver.ErrSkip
	}
	_, err := e.ExecContext(ctx, query, nil)
	return err
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	q, ok := c.Conn.(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	if err := c.beforeText(ctx, query); err != nil {
		return nil, err
	}
	r, err := q.QueryContext(ctx, query, args)
	if err != nil {
		return nil, c.record(err)
	}
	return &rows{Rows: r, conn: c, checksState: strings.HasPrefix(query, statePrefix)}, nil
}

func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	p, ok := c.Conn.(driver.ConnPrepareContext)
	if !ok {
		return nil, errors.New("driver can't prepare with a context")
	}
	if err := c.beforeText(ctx, query); err != nil {
		return nil, err
	}
	s, err := p.PrepareContext(ctx, query)
	if err != nil {
		return nil, c.record(err)
	}
	return &stmt{Stmt: s, conn: c, ends: statementEnds(ctx)}, nil
}

// The interfaces that database/sql looks for in a connection and its parts.
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
