package worker

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/statement"
	"github.com/duetime/duetime/pkg/task"
)

var errTxOver = errors.New("the handler that this transaction was for has returned")

// Tx is the transaction that a handler shares with the end of its tasks, and with other tasks of the batch: whatever it
// does takes effect with them or not at all. It has no Commit, and refuses statements that would end it: COMMIT, ROLLBACK,
// LOCK TABLES, DDL but for temporary tables, SET autocommit. Like the connection under it, it is for one goroutine at
// a time, and it is over when the handler returns; every statement also ends with the handler's time, whatever context
// it is given.
//
// Tasks of the batch that have run answer task.ErrAlreadyDone; tasks of the batch whose turn has not come can be moved
// and cancelled like any other and will not run then. A handler may move its own task: it stays pending then, and since it
// has succeeded its attempts begin anew.
type Tx struct {
	ctx  context.Context //nolint:containedctx // Bounds what a handler does with a context of its own.
	try  *try
	call []*member // whose handler this is

	mu     sync.Mutex
	over   bool
	points map[string]checkpoint        // of the savepoints that the handler has set, by their names
	end    context.CancelFunc           // ends prepared statements; nil while there are none
	ends   context.Context              //nolint:containedctx // Of prepared statements: over when the handler has returned.
	read   []interface{ Close() error } // results that the handler may have left open
}

var _ sqlx.ExtContext = (*Tx)(nil)

func (t *Tx) close() {
	t.mu.Lock()
	read, end := t.read, t.end
	t.over, t.read = true, nil
	t.mu.Unlock()
	if end != nil {
		end()
	}
	for _, r := range read {
		_ = r.Close() // of no use to anybody; a lost connection is found out by the next statement
	}
}

// leave remembers a result that is to be closed with the handler: the end of its context would close the connection.
func (t *Tx) leave(r interface{ Close() error }) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.read = append(t.read, r)
}

// row closes a result of one row that nobody has scanned.
type row struct{ scan func(...any) error }

func (r row) Close() error { return r.scan() }

// within makes ctx end with the handler's time, so that an abandoned handler can't keep the connection. Once that is over ctx
// has ended before the statement begins, which then leaves the others' transaction alone.
func (t *Tx) within(ctx context.Context) context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		ended, cancel := context.WithCancelCause(ctx)
		cancel(errTxOver)
		return ended
	}
	return t.bounded(ctx)
}

// bounded is within, while the handler runs.
func (t *Tx) bounded(ctx context.Context) context.Context {
	if ctx == t.ctx {
		return ctx
	}
	bounded, cancel := context.WithCancelCause(ctx)
	context.AfterFunc(t.ctx, func() { cancel(t.ctx.Err()) })
	return bounded
}

// sees prepares for a statement on tasks: those that have run must look done to it. The handler is not over before that ended.
func (t *Tx) sees(ctx context.Context) (context.Context, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return nil, errTxOver
	}
	ctx = t.bounded(ctx)
	return ctx, t.try.markDone(ctx)
}

// Now is the moment of this transaction on the database's clock, exact to the millisecond. It is never before the task's
// own time, also when that clock is set back meanwhile.
func (t *Tx) Now(ctx context.Context) (time.Time, error) {
	now, err := t.try.changes.Now(t.within(ctx))
	if locked := t.try.now; err == nil && now.Before(locked) {
		now = locked
	}
	return now, err
}

// Schedule makes a task, as schedule.Tx does. A follow-up under the key of the task that is being run, whose key is free only
// when it has ended, answers ErrOwnKey and changes nothing: move the task instead, or give each follow-up a key of its own.
// KeyMove with that key moves the task.
func (t *Tx) Schedule(ctx context.Context, spec task.Spec) (task.Task, error) {
	made, err := t.ScheduleMany(ctx, []task.Spec{spec})
	if err != nil {
		return task.Task{}, err
	}
	return made[0], nil
}

// ScheduleMany makes up to task.MaxPerCall tasks, as schedule.Tx does. Its error is ErrOwnKey where that would make none.
func (t *Tx) ScheduleMany(ctx context.Context, specs []task.Spec) ([]task.Task, error) {
	if !slices.ContainsFunc(specs, t.mayMeet) {
		ctx = t.within(ctx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return t.try.changes.ScheduleMany(ctx, specs) // can't meet a task that has run
	}
	return with(ctx, t, func(ctx context.Context) ([]task.Task, error) {
		if err := t.refuseOwnKeys(ctx, specs); err != nil {
			return nil, err
		}
		return t.try.changes.ScheduleMany(ctx, specs)
	})
}

// Reschedule moves the task to another due time, as schedule.Tx does.
func (t *Tx) Reschedule(ctx context.Context, id task.ID, when task.When) (task.Task, error) {
	return with(ctx, t, func(ctx context.Context) (task.Task, error) { return t.try.changes.Reschedule(ctx, id, when) })
}

// Shift moves the task by d, as schedule.Tx does.
func (t *Tx) Shift(ctx context.Context, id task.ID, d time.Duration) (task.Task, error) {
	return with(ctx, t, func(ctx context.Context) (task.Task, error) { return t.try.changes.Shift(ctx, id, d) })
}

// Cancel takes the task back, as schedule.Tx does.
func (t *Tx) Cancel(ctx context.Context, id task.ID) (task.Task, error) {
	return with(ctx, t, func(ctx context.Context) (task.Task, error) { return t.try.changes.Cancel(ctx, id) })
}

// RescheduleMany moves up to task.MaxPerCall tasks to one due time, all or nothing.
func (t *Tx) RescheduleMany(ctx context.Context, ids []task.ID, when task.When) ([]task.Task, error) {
	return with(ctx, t, func(ctx context.Context) ([]task.Task, error) {
		return t.try.changes.RescheduleMany(ctx, ids, when)
	})
}

// ShiftMany moves up to task.MaxPerCall tasks by d, all or nothing.
func (t *Tx) ShiftMany(ctx context.Context, ids []task.ID, d time.Duration) ([]task.Task, error) {
	return with(ctx, t, func(ctx context.Context) ([]task.Task, error) { return t.try.changes.ShiftMany(ctx, ids, d) })
}

// CancelMany takes up to task.MaxPerCall tasks back, all or nothing.
func (t *Tx) CancelMany(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	return with(ctx, t, func(ctx context.Context) ([]task.Task, error) { return t.try.changes.CancelMany(ctx, ids) })
}

// ShiftOwner shifts all pending tasks of the owner, of one kind or ("") of any, and returns them.
func (t *Tx) ShiftOwner(ctx context.Context, owner, kind string, d time.Duration) ([]task.Task, error) {
	return with(ctx, t, func(ctx context.Context) ([]task.Task, error) {
		return t.try.changes.ShiftOwner(ctx, owner, kind, d)
	})
}

// CancelOwner cancels all pending tasks of the owner, of one kind or ("") of any, and returns them.
func (t *Tx) CancelOwner(ctx context.Context, owner, kind string) ([]task.Task, error) {
	return with(ctx, t, func(ctx context.Context) ([]task.Task, error) { return t.try.changes.CancelOwner(ctx, owner, kind) })
}

// Get reads the task without locking it.
func (t *Tx) Get(ctx context.Context, id task.ID) (task.Task, error) {
	return with(ctx, t, func(ctx context.Context) (task.Task, error) { return t.try.changes.Get(ctx, id) })
}

// ListOwner reads the owner's pending tasks, of one kind or ("") of any, by run_at, without locking them.
func (t *Tx) ListOwner(ctx context.Context, owner, kind string) ([]task.Task, error) {
	return with(ctx, t, func(ctx context.Context) ([]task.Task, error) { return t.try.changes.ListOwner(ctx, owner, kind) })
}

func with[T any](ctx context.Context, t *Tx, do func(context.Context) (T, error)) (T, error) {
	ctx, err := t.sees(ctx)
	if err != nil {
		var none T
		return none, err
	}
	return do(ctx)
}

// ExecContext runs the handler's own statement in the transaction. A ROLLBACK TO a savepoint that the handler has set, as in
// nested transactions, also takes back the changes of tasks since.
func (t *Tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	ctx, err := t.admit(ctx, query)
	if err != nil {
		return nil, err
	}
	r, err := t.try.tx.ExecContext(ctx, query, args...)
	if err == nil {
		t.follow(statement.Savepoint(query))
	}
	return r, err
}

// follow notes what a statement did to a savepoint, if it is about one. Tasks that were marked done since are to be marked
// again: a handler's look at tasks causes the marking, and a savepoint of its own must not undo what others have done.
func (t *Tx) follow(name string, back bool) {
	if name == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	point, set := t.points[name]
	switch {
	case t.over:
	case back && set:
		t.try.rewind(point)
	case !back && t.points == nil:
		t.points = map[string]checkpoint{name: t.try.checkpoint()}
	case !back:
		t.points[name] = t.try.checkpoint()
	}
}

// PrepareContext prepares the handler's own statement in the transaction, as the interfaces of sqlc, GORM and others ask.
// The statement is over when the handler returns, and each of its runs ends with the handler's time, whatever context
// it is given. A statement that runs once is cheaper without: preparing is a round trip more.
func (t *Tx) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	ctx, err := t.admit(ctx, query)
	if err != nil {
		return nil, err
	}
	return t.try.tx.PrepareContext(statementContext{ctx, t.statements()}, query)
}

// statements returns the context with which all prepared statements end.
func (t *Tx) statements() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ends == nil {
		t.ends, t.end = context.WithCancel(t.ctx)
	}
	if t.over {
		t.end()
	}
	return t.ends
}

// statementContext tells the store's connection when the statement that is prepared under it ends: database/sql hands a
// statement's runs only the contexts of those who run it.
type statementContext struct {
	context.Context //nolint:containedctx // It is this context, with one thing more to tell.

	ends context.Context //nolint:containedctx // It is what this carries.
}

// StatementEnds returns the context of the statement's life.
func (c statementContext) StatementEnds() context.Context { return c.ends }

// QueryContext runs the handler's own query in the transaction. Close the rows before the next statement; they end with the
// handler.
func (t *Tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	ctx, err := t.admit(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := t.try.tx.QueryContext(ctx, query, args...)
	if err == nil {
		t.leave(rows)
	}
	return rows, err
}

// QueryRowContext runs the handler's own query of one row in the transaction.
func (t *Tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	found := t.try.tx.QueryRowContext(t.admitted(ctx, query), query, args...)
	t.leave(row{found.Scan})
	return found
}

// QueryxContext is QueryContext with sqlx's rows.
func (t *Tx) QueryxContext(ctx context.Context, query string, args ...any) (*sqlx.Rows, error) {
	ctx, err := t.admit(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := t.try.tx.QueryxContext(ctx, query, args...)
	if err == nil {
		t.leave(rows)
	}
	return rows, err
}

// QueryRowxContext is QueryRowContext with sqlx's row.
func (t *Tx) QueryRowxContext(ctx context.Context, query string, args ...any) *sqlx.Row {
	found := t.try.tx.QueryRowxContext(t.admitted(ctx, query), query, args...)
	t.leave(row{found.Scan})
	return found
}

// GetContext reads one row into dest; sql.ErrNoRows when there is none.
func (t *Tx) GetContext(ctx context.Context, dest any, query string, args ...any) error {
	ctx, err := t.admit(ctx, query)
	if err != nil {
		return err
	}
	return t.try.tx.GetContext(ctx, dest, query, args...)
}

// SelectContext reads all rows into the slice at dest.
func (t *Tx) SelectContext(ctx context.Context, dest any, query string, args ...any) error {
	ctx, err := t.admit(ctx, query)
	if err != nil {
		return err
	}
	return t.try.tx.SelectContext(ctx, dest, query, args...)
}

// DriverName lets sqlx's named queries run on a Tx.
func (t *Tx) DriverName() string { return t.try.tx.DriverName() }

// Rebind lets sqlx's named queries run on a Tx.
func (t *Tx) Rebind(query string) string { return t.try.tx.Rebind(query) }

// BindNamed lets sqlx's named queries run on a Tx.
func (t *Tx) BindNamed(query string, arg any) (string, []any, error) {
	return t.try.tx.BindNamed(query, arg)
}
