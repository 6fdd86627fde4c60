package worker

import (
	"context"
	"database/sql"

	"github.com/jmoiron/sqlx"
)

// oneRow closes a result of one row that nobody has scanned.
type oneRow struct{ scan func(...any) error }

func (r oneRow) Close() error { return r.scan() }

// ExecContext runs the handler's own statement in the transaction. A ROLLBACK TO a savepoint that the handler has set, as in
// nested transactions, also takes back the changes of tasks since.
func (t *Tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	ctx, err := t.call.Admit(ctx, query, true)
	if err != nil {
		return nil, err
	}
	r, err := t.call.SQL().ExecContext(ctx, query, args...)
	if err == nil {
		t.call.Follow(query)
	}
	return r, err
}

// PrepareContext prepares the handler's own statement in the transaction, as the interfaces of sqlc, GORM and others ask.
// The statement is over when the handler returns, and each of its runs ends with the handler's time, whatever context
// it is given. A statement that runs once is cheaper without: preparing is a round trip more.
func (t *Tx) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	ctx, err := t.call.Admit(ctx, query, false)
	if err != nil {
		return nil, err
	}
	return t.call.SQL().PrepareContext(t.call.BoundPrepared(ctx), query)
}

// QueryContext runs the handler's own query in the transaction. Close the rows before the next statement; they end with the
// handler.
func (t *Tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	ctx, err := t.call.Admit(ctx, query, false)
	if err != nil {
		return nil, err
	}
	rows, err := t.call.SQL().QueryContext(ctx, query, args...)
	if err == nil {
		t.call.CloseAtEnd(rows)
	}
	return rows, err
}

// QueryRowContext runs the handler's own query of one row in the transaction.
func (t *Tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	found := t.call.SQL().QueryRowContext(t.call.Admitted(ctx, query), query, args...)
	t.call.CloseAtEnd(oneRow{found.Scan})
	return found
}

// QueryxContext is QueryContext with sqlx's rows.
func (t *Tx) QueryxContext(ctx context.Context, query string, args ...any) (*sqlx.Rows, error) {
	ctx, err := t.call.Admit(ctx, query, false)
	if err != nil {
		return nil, err
	}
	rows, err := t.call.SQL().QueryxContext(ctx, query, args...)
	if err == nil {
		t.call.CloseAtEnd(rows)
	}
	return rows, err
}

// QueryRowxContext is QueryRowContext with sqlx's row.
func (t *Tx) QueryRowxContext(ctx context.Context, query string, args ...any) *sqlx.Row {
	found := t.call.SQL().QueryRowxContext(t.call.Admitted(ctx, query), query, args...)
	t.call.CloseAtEnd(oneRow{found.Scan})
	return found
}

// GetContext reads one row into dest; sql.ErrNoRows when there is none.
func (t *Tx) GetContext(ctx context.Context, dest any, query string, args ...any) error {
	ctx, err := t.call.Admit(ctx, query, false)
	if err != nil {
		return err
	}
	return t.call.SQL().GetContext(ctx, dest, query, args...)
}

// SelectContext reads all rows into the slice at dest.
func (t *Tx) SelectContext(ctx context.Context, dest any, query string, args ...any) error {
	ctx, err := t.call.Admit(ctx, query, false)
	if err != nil {
		return err
	}
	return t.call.SQL().SelectContext(ctx, dest, query, args...)
}

// DriverName lets sqlx's named queries run on a Tx.
func (t *Tx) DriverName() string { return t.call.SQL().DriverName() }

// Rebind lets sqlx's named queries run on a Tx.
func (t *Tx) Rebind(query string) string { return t.call.SQL().Rebind(query) }

// BindNamed lets sqlx's named queries run on a Tx.
func (t *Tx) BindNamed(query string, arg any) (string, []any, error) {
	return t.call.SQL().BindNamed(query, arg)
}
