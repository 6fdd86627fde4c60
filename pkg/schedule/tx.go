package schedule

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"go.opentelemetry.io/otel/trace"

	"github.com/duetime/duetime/internal/statement"
	"github.com/duetime/duetime/pkg/task"
)

// Rows is what a transaction needs of the store. q is the transaction.
type Rows interface {
	// Now reads the database's clock.
	Now(ctx context.Context, q sqlx.QueryerContext) (time.Time, error)
	// Insert writes new rows, in an order that all transactions share, and returns for each the row that stands, locked:
	// its own, or the one that has its id or its key.
	Insert(ctx context.Context, q sqlx.ExtContext, tasks []task.Task) ([]task.Task, error)
	// Lock locks rows in id order and returns those that exist.
	Lock(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, error)
	// LockOwner locks the owner's pending rows ("" kind: of any kind), at most task.MaxPerCall+1, in id order. The time is
	// that of the database just before; zero if there are none.
	LockOwner(ctx context.Context, q sqlx.ExtContext, owner, kind string) ([]task.Task, time.Time, error)
	// Get reads rows without locking.
	Get(ctx context.Context, q sqlx.QueryerContext, ids []task.ID) ([]task.Task, error)
	// ListOwner reads the owner's pending rows without locking, by run_at.
	ListOwner(ctx context.Context, q sqlx.QueryerContext, owner, kind string) ([]task.Task, error)
	// Save writes rows whose transition was computed, each over the version before it.
	Save(ctx context.Context, q sqlx.ExtContext, tasks []task.Task) error
	// SaveShifted is Save for rows whose due times have all moved by the same.
	SaveShifted(ctx context.Context, q sqlx.ExtContext, tasks []task.Task, by time.Duration) error
	// Record appends lines to the history; a nil q means a transaction of its own.
	Record(ctx context.Context, q sqlx.ExtContext, events []task.Event) error
}

// Tx is one try of a transaction: the service's own statements, and the changes of tasks that commit or vanish with
// them. Like the connection under it, it is for one goroutine at a time, and ends with the function that got it.
type Tx struct {
	db    handle
	rows  Rows
	guard func(context.Context) error // nil, or what must hold before each change
	now   time.Time
	log   []task.Task  // every version that this try wrote, in order
	told  []task.Event // what those mean to people
	wrote int          // how many of told the transaction itself has written
	actor string
	err   error
	kinds *Kinds          // that may be scheduled; nil: all
	marks map[string]Mark // of the savepoints that the service has set through this Tx, by their names

	renewed []task.ID // whose moves begin their attempts anew

	tracer trace.Tracer // nil: no spans; what is scheduled carries its caller's trace context all the same
}

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

// NewTx wraps a transaction that its caller begins, commits and rolls back, as the worker does.
func NewTx(tx *sqlx.Tx, rows Rows) *Tx { return &Tx{db: tx, rows: rows} }

// Only has the transaction refuse to schedule what these kinds refuse; nil refuses nothing. Call it before the first change.
func (t *Tx) Only(kinds *Kinds) *Tx {
	t.kinds = kinds
	return t
}

// Now is the moment of this transaction on the database's clock, exact to the millisecond: read at the first call or
// the first change that needs it, and the same from then on.
func (t *Tx) Now(ctx context.Context) (time.Time, error) {
	if !t.now.IsZero() {
		return t.now, nil
	}
	now, err := t.rows.Now(ctx, t.db)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	t.now = now
	return now, nil
}

// Renew names the tasks whose moves, from now on, begin their attempts anew: the worker names those whose handler is at work,
// because a task that moves itself has succeeded. It replaces what it named before.
func (t *Tx) Renew(ids []task.ID) { t.renewed = ids }

// renew is what becomes of a task that was moved.
func (t *Tx) renew(moved task.Task) task.Task {
	if moved.State == task.Pending && slices.Contains(t.renewed, moved.ID) {
		moved.Attempt = 0
	}
	return moved
}

// Err returns the first failure of this try after which it must not commit, though the caller may have passed over the
// error: a deadlock, a lock wait, or a change that was written in part. Nil while the try is sound.
func (t *Tx) Err() error { return t.err }

// Mark is a place in a try to which Rewind goes back.
type Mark struct {
	n, told, wrote int
	err            error
}

// Mark notes this place; take it where a SAVEPOINT is set.
func (t *Tx) Mark() Mark { return Mark{n: len(t.log), told: len(t.told), wrote: t.wrote, err: t.err} }

// Rewind forgets what was touched since the mark; call it after a ROLLBACK TO the savepoint has succeeded.
func (t *Tx) Rewind(m Mark) {
	t.log, t.told, t.wrote, t.err = t.log[:m.n], t.told[:m.told], m.wrote, m.err
}

// Touched returns the last version of each task that this try wrote, in the order of first touch.
func (t *Tx) Touched() []task.Task { return t.TouchedSince(Mark{}) }

// TouchedSince is Touched for what was written after the mark.
func (t *Tx) TouchedSince(m Mark) []task.Task { return latest(t.log[m.n:]) }

// latest keeps the newest version of each task, in the order of first touch.
func latest(log []task.Task) []task.Task {
	at := make(map[task.ID]int, len(log))
	out := make([]task.Task, 0, len(log))
	for _, v := range log {
		i, seen := at[v.ID]
		switch {
		case !seen:
			at[v.ID] = len(out)
			out = append(out, v)
		case v.Version >= out[i].Version:
			out[i] = v
		}
	}
	return out
}

// ready refuses a change in a transaction that is over.
func (t *Tx) ready(ctx context.Context) error {
	if t.err != nil {
		return fmt.Errorf("transaction is over: %w", t.err)
	}
	if t.guard == nil {
		return nil
	}
	if err := t.guard(ctx); err != nil {
		return t.spoil(err)
	}
	return nil
}

// spoil notes the failure, so that the transaction can't commit when the caller passes over the error.
func (t *Tx) spoil(err error) error {
	if t.err == nil {
		t.err = err
	}
	return err
}

// ExecContext runs the service's own statement in the transaction. With a ROLLBACK TO a savepoint that was set here too,
// as in nested transactions, this Tx forgets the tasks that it has touched since.
func (t *Tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	r, err := t.db.ExecContext(ctx, query, args...)
	if err == nil {
		t.follow(statement.Savepoint(query))
	}
	return r, err
}

// follow notes what a statement did to a savepoint, if it is about one.
func (t *Tx) follow(name string, back bool) {
	mark, set := t.marks[name]
	switch {
	case name == "":
	case back && set:
		t.Rewind(mark)
	case !back && t.marks == nil:
		t.marks = map[string]Mark{name: t.Mark()}
	case !back:
		t.marks[name] = t.Mark()
	}
}

// PrepareContext prepares the service's own statement in the transaction, as the interfaces of sqlc, GORM and others ask.
// The statement ends with the transaction. A statement that runs once is cheaper without: preparing is a round trip more.
func (t *Tx) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	return t.db.PrepareContext(ctx, query)
}

// QueryContext runs the service's own query in the transaction. Close the rows before the next statement.
func (t *Tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return t.db.QueryContext(ctx, query, args...)
}

// QueryRowContext runs the service's own query of one row in the transaction.
func (t *Tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return t.db.QueryRowContext(ctx, query, args...)
}

// QueryxContext is QueryContext with sqlx's rows.
func (t *Tx) QueryxContext(ctx context.Context, query string, args ...any) (*sqlx.Rows, error) {
	return t.db.QueryxContext(ctx, query, args...)
}

// QueryRowxContext is QueryRowContext with sqlx's row.
func (t *Tx) QueryRowxContext(ctx context.Context, query string, args ...any) *sqlx.Row {
	return t.db.QueryRowxContext(ctx, query, args...)
}

// GetContext reads one row into dest; sql.ErrNoRows when there is none.
func (t *Tx) GetContext(ctx context.Context, dest any, query string, args ...any) error {
	return t.db.GetContext(ctx, dest, query, args...)
}

// SelectContext reads all rows into the slice at dest.
func (t *Tx) SelectContext(ctx context.Context, dest any, query string, args ...any) error {
	return t.db.SelectContext(ctx, dest, query, args...)
}

// DriverName lets sqlx's named queries run on a Tx.
func (t *Tx) DriverName() string { return t.db.DriverName() }

// Rebind lets sqlx's named queries run on a Tx.
func (t *Tx) Rebind(query string) string { return t.db.Rebind(query) }

// BindNamed lets sqlx's named queries run on a Tx.
func (t *Tx) BindNamed(query string, arg any) (string, []any, error) {
	return t.db.BindNamed(query, arg)
}
