package store

import (
	"context"
	"database/sql/driver"
	"errors"
)

// stmt is one prepared statement of a guarded connection.
type stmt struct {
	driver.Stmt
	conn *conn
	ends context.Context //nolint:containedctx // Of the statement's life; nil: its transaction's context.
}

// statementEnds returns the context that bounds all runs of a statement, if the context under which the statement is
// prepared carries one. A run's own context may outlive the handler for which the statement was prepared.
func statementEnds(ctx context.Context) context.Context {
	if c, ok := ctx.(interface{ StatementEnds() context.Context }); ok {
		return c.StatementEnds()
	}
	return nil
}

// bound makes ctx end with the statement's life. After the end of that life it returns an error, and the transaction
// stays as it is.
func (s *stmt) bound(ctx context.Context) (context.Context, error) {
	if s.ends == nil {
		return ctx, nil
	}
	if err := s.ends.Err(); err != nil {
		return nil, err
	}
	bounded, cancel := context.WithCancelCause(ctx)
	context.AfterFunc(s.ends, func() { cancel(context.Cause(s.ends)) })
	return bounded, nil
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	e, ok := s.Stmt.(driver.StmtExecContext)
	if !ok {
		return nil, errors.New("driver can't execute with a context")
	}
	ctx, err := s.bound(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.conn.beforeRun(ctx); err != nil {
		return nil, err
	}
	r, err := e.ExecContext(ctx, args)
	return r, s.conn.record(err)
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	q, ok := s.Stmt.(driver.StmtQueryContext)
	if !ok {
		return nil, errors.New("driver can't query with a context")
	}
	ctx, err := s.bound(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.conn.beforeRun(ctx); err != nil {
		return nil, err
	}
	r, err := q.QueryContext(ctx, args)
	if err != nil {
		return nil, s.conn.record(err)
	}
	return &rows{Rows: r, conn: s.conn}, nil
}

func (s *stmt) CheckNamedValue(nv *driver.NamedValue) error {
	if n, ok := s.Stmt.(driver.NamedValueChecker); ok {
		return n.CheckNamedValue(nv)
	}
	return s.conn.CheckNamedValue(nv)
}
