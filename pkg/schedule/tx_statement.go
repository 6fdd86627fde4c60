package schedule

import (
	"context"
	"database/sql"
	"io"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/statement"
)

var _ sqlx.ExtContext = (*Tx)(nil)

// handle is what a Tx asks of the transaction under it: a *sqlx.Tx, or a refusal to every statement.
type handle interface {
	sqlx.ExtContext
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	GetContext(ctx context.Context, dest any, query string, args ...any) error
	SelectContext(ctx context.Context, dest any, query string, args ...any) error
	DriverName() string
	Rebind(query string) string
	BindNamed(query string, arg any) (string, []any, error)
}

// admit prepares for a statement of the service, and returns the context for it. The caller's own transaction is the caller's to
// guard: see Joined.
func (t *Tx) admit(ctx context.Context, query string, followed bool) (context.Context, error) {
	switch {
	case t.call != nil:
		if err := t.checkDoubt(ctx); err != nil {
			return nil, err
		}
		return t.call.Admit(ctx, query, followed)
	case t.guard != nil:
		return ctx, nil
	default:
		return ctx, t.watch.Admit(ctx, t.db, query, followed, nothingBefore)
	}
}

func nothingBefore(context.Context) error { return nil }

// checkDoubt refuses a handler's statement in a joined transaction that the server has rolled back: it would commit by itself,
// and the task would run once more. Where the last answer was no success, it asks the server.
func (t *Tx) checkDoubt(ctx context.Context) error {
	if t.guard == nil {
		return nil // the connection is the store's, and remembers
	}
	if err := ctx.Err(); err != nil {
		return err // the statement does not run, and a question that does not either would count as a failed change
	}
	if t.doubtful || t.ledger.Err() != nil {
		if _, err := t.usable(ctx); err != nil {
			return err
		}
	}
	t.doubtful = true
	return nil
}

// answered ends the doubt if the statement has succeeded.
func (t *Tx) answered(err error) error {
	t.doubtful = err != nil || t.prepared
	return err
}

// admitted is admit for callers that can't return an error: after one it returns a context that has ended.
func (t *Tx) admitted(ctx context.Context, query string) context.Context {
	allowed, err := t.admit(ctx, query, false)
	if err != nil {
		return statement.EndedContext(ctx, err)
	}
	return allowed
}

// closeAtEnd closes a result that a handler has left open when it returned: a result that is open when its context ends closes the
// connection, which the handler shares.
func (t *Tx) closeAtEnd(result io.Closer) {
	if t.call != nil {
		t.call.CloseAtEnd(result)
	}
}

// oneRow closes a result of one row that nobody has scanned.
type oneRow struct{ scan func(...any) error }

func (r oneRow) Close() error { return r.scan() }

// ExecContext runs the service's own statement in the transaction. With a ROLLBACK TO a savepoint that was set here too,
// as in nested transactions, this Tx forgets the tasks that it has touched since.
func (t *Tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	ctx, err := t.admit(ctx, query, true)
	if err != nil {
		return nil, err
	}
	r, err := t.db.ExecContext(ctx, query, args...)
	switch {
	case t.answered(err) != nil:
	case t.call != nil:
		t.call.Follow(func() { t.followSavepoint(query) })
	case t.guard != nil || t.watch.Nested():
		t.followSavepoint(query)
	}
	return r, err
}

// followSavepoint follows what a statement did to a savepoint, if it is about one.
func (t *Tx) followSavepoint(query string) {
	name, use := statement.Savepoint(query)
	mark, set := t.marks[name]
	switch {
	case name == "":
	case use == statement.GoesBack && set:
		t.ledger.Rewind(mark)
	case use == statement.Sets && t.marks == nil:
		t.marks = map[string]int{name: t.ledger.Mark()}
	case use == statement.Sets:
		t.marks[name] = t.ledger.Mark()
	}
}

// PrepareContext prepares the service's own statement in the transaction, as the interfaces of sqlc, GORM and others ask.
// The statement ends with the transaction, and with the handler. A statement that runs once is cheaper without: preparing is a round
// trip more.
func (t *Tx) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	ctx, err := t.admit(ctx, query, false)
	if err != nil {
		return nil, err
	}
	if t.call != nil {
		ctx, t.prepared = t.call.BoundPrepared(ctx), true
	}
	return t.db.PrepareContext(ctx, query)
}

// QueryContext runs the service's own query in the transaction. Close the rows before the next statement.
func (t *Tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	ctx, err := t.admit(ctx, query, false)
	if err != nil {
		return nil, err
	}
	rows, err := t.db.QueryContext(ctx, query, args...)
	if err == nil {
		t.closeAtEnd(rows)
	}
	return rows, err
}

// QueryRowContext runs the service's own query of one row in the transaction.
func (t *Tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	found := t.db.QueryRowContext(t.admitted(ctx, query), query, args...)
	t.closeAtEnd(oneRow{found.Scan})
	return found
}

// QueryxContext is QueryContext with sqlx's rows.
func (t *Tx) QueryxContext(ctx context.Context, query string, args ...any) (*sqlx.Rows, error) {
	ctx, err := t.admit(ctx, query, false)
	if err != nil {
		return nil, err
	}
	rows, err := t.db.QueryxContext(ctx, query, args...)
	if err == nil {
		t.closeAtEnd(rows)
	}
	return rows, err
}

// QueryRowxContext is QueryRowContext with sqlx's row.
func (t *Tx) QueryRowxContext(ctx context.Context, query string, args ...any) *sqlx.Row {
	found := t.db.QueryRowxContext(t.admitted(ctx, query), query, args...)
	t.closeAtEnd(oneRow{found.Scan})
	return found
}

// GetContext reads one row into dest; sql.ErrNoRows when there is none.
func (t *Tx) GetContext(ctx context.Context, dest any, query string, args ...any) error {
	ctx, err := t.admit(ctx, query, false)
	if err != nil {
		return err
	}
	return t.answered(t.db.GetContext(ctx, dest, query, args...))
}

// SelectContext reads all rows into the slice at dest.
func (t *Tx) SelectContext(ctx context.Context, dest any, query string, args ...any) error {
	ctx, err := t.admit(ctx, query, false)
	if err != nil {
		return err
	}
	return t.answered(t.db.SelectContext(ctx, dest, query, args...))
}

// DriverName lets sqlx's named queries run on a Tx.
func (t *Tx) DriverName() string { return t.db.DriverName() }

// Rebind lets sqlx's named queries run on a Tx.
func (t *Tx) Rebind(query string) string { return t.db.Rebind(query) }

// BindNamed lets sqlx's named queries run on a Tx.
func (t *Tx) BindNamed(query string, arg any) (string, []any, error) {
	return t.db.BindNamed(query, arg)
}
