package schedule

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"go.opentelemetry.io/otel/trace"

	"github.com/duetime/duetime/internal/recurrence"
	"github.com/duetime/duetime/internal/statement"
	"github.com/duetime/duetime/pkg/task"
)

// Rows is what a transaction needs of the store. Our own wiring alone makes one, of internal/store.
type Rows interface {
	rowReader   // tx_read.go
	rowWriter   // tx_change.go
	recorder    // history.go
	recurrences // recur.go
	operations  // bulk.go
	labeler     // tx_labels.go
	blocks      // block.go
}

// Tx is one try of a transaction: the service's own statements, and the changes of tasks that commit or vanish with
// them. Like the connection under it, it is for one goroutine at a time, and ends with the function that got it.
type Tx struct {
	db    handle
	rows  Rows
	guard func(context.Context) error // nil, or what must hold before each change
	now   time.Time
	err   error           // after which it must not commit
	kinds *Kinds          // that may be scheduled; nil: all
	watch statement.Guard // of the service's own statements, in a transaction of ours
	marks map[string]Mark // of the savepoints that the service has set through this Tx, by their names

	unblocked map[string]bool        // owners who were not blocked when this transaction asked
	blocks    bool                   // it has blocked an owner
	inScope   func(kind string) bool // which kinds of recurrences Recur may redefine; nil: all

	before SpecFunc // sees what is scheduled; nil: none

	written  []task.Task               // every version that this try wrote, in order
	events   []task.Event              // what those mean to people
	recorded int                       // how many of events the transaction itself has written
	actor    string                    // of the events
	renewed  []task.ID                 // whose moves begin their attempts anew
	renewal  func(task.Task) task.Task // begins them anew
	ticks    []recurrence.Tick
	recurred bool // recurrences were changed

	tracer trace.Tracer // nil: no spans; what is scheduled carries its caller's trace context all the same
}

// NewTx wraps a transaction that its caller begins, commits and rolls back. It is for our own worker; services use
// Client.InTx and Client.Join.
func NewTx(tx *sqlx.Tx, rows Rows) *Tx { return &Tx{db: tx, rows: rows} }

// Only has the transaction refuse to schedule what these kinds refuse; nil refuses nothing. Call it before the first change.
// It is for our own worker.
func (t *Tx) Only(kinds *Kinds) *Tx {
	t.kinds = kinds
	return t
}

// As names who makes the changes of this transaction, for their lines in the history, in place of the client's
// Config.Actor: an operator who is signed in to a page of the service, for example. Call it before the first change. A name
// of more than 128 bytes is cut.
func (t *Tx) As(actor string) *Tx {
	t.actor = actor
	return t
}

// Scoped has Recur answer task.ErrNameTaken, in place of redefining a recurrence of a kind that inScope refuses, and leaves a
// recurrence's task of such a kind as it is. Call it before the first change. It is for our own API, whose callers may see some kinds only.
func (t *Tx) Scoped(inScope func(kind string) bool) *Tx {
	t.inScope = inScope
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

// Renew names the tasks whose moves, from now on, begin their attempts anew, which renewal does to the moved task: our own
// worker names those whose handler is at work, because a task that moves itself has succeeded. It replaces what it
// named before, and forgets the savepoints of that handler.
func (t *Tx) Renew(ids []task.ID, renewal func(task.Task) task.Task) {
	t.renewed, t.renewal, t.marks = ids, renewal, nil
}

// renew is what becomes of a task that was moved.
func (t *Tx) renew(moved task.Task) task.Task {
	if moved.State == task.Pending && slices.Contains(t.renewed, moved.ID) {
		return t.renewal(moved)
	}
	return moved
}

// Err returns the first failure of this try after which it must not commit, though the caller may have passed over the
// error: a deadlock, a lock wait, or a change that was written in part. Nil while the try is sound.
func (t *Tx) Err() error { return t.err }

// Mark is a place in a try to which Rewind goes back. Marks are for our own worker; the savepoints that a service sets through
// Tx.ExecContext need none.
type Mark struct {
	written, events, recorded, ticks int
	err                              error
}

// Mark returns this place; take it where a SAVEPOINT is set.
func (t *Tx) Mark() Mark {
	return Mark{written: len(t.written), events: len(t.events), recorded: t.recorded, ticks: len(t.ticks), err: t.err}
}

// Rewind forgets what was touched since the mark; call it after a ROLLBACK TO the savepoint has succeeded.
func (t *Tx) Rewind(m Mark) {
	t.written, t.events, t.recorded, t.err = t.written[:m.written], t.events[:m.events], m.recorded, m.err
	t.ticks = t.ticks[:m.ticks]
}

// Recurred reports whether this try has changed recurrences. It is for our own worker.
func (t *Tx) Recurred() bool { return t.recurred }

// Ticks counts the ticks of recurrences that this try has made or skipped. It is for our own worker.
func (t *Tx) Ticks() []recurrence.Tick { return t.ticks }

// CheckUndone reads the tasks that this try has touched, and those given, and answers ErrUnfollowed if their rows are of other
// versions. It is for our own worker.
func (t *Tx) CheckUndone(ctx context.Context, also ...task.Task) error {
	left := latest(slices.Concat(also, t.written))
	if len(left) == 0 {
		return nil
	}
	ids := make([]task.ID, len(left))
	for i, v := range left {
		ids[i] = v.ID
	}
	rows, err := t.rows.Get(ctx, t.db, ids)
	if err != nil {
		return err
	}
	found := byID(rows)
	for _, v := range left {
		if found[v.ID].Version != v.Version {
			return fmt.Errorf("%w: task %s", ErrUnfollowed, v.ID)
		}
	}
	return nil
}

// Touched returns the last version of each task that this try wrote, in the order of first touch: what is put into the index
// after the commit (Client.afterCommit).
func (t *Tx) Touched() []task.Task { return t.TouchedSince(Mark{}) }

// TouchedSince is Touched for what was written after the mark. It is for our own worker.
func (t *Tx) TouchedSince(m Mark) []task.Task { return latest(t.written[m.written:]) }

// latest keeps the newest version of each task, in the order of first touch.
func latest(written []task.Task) []task.Task {
	at := make(map[task.ID]int, len(written))
	out := make([]task.Task, 0, len(written))
	for _, v := range written {
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

// checkUsable refuses a change in a transaction that is over.
func (t *Tx) checkUsable(ctx context.Context) error {
	if t.err != nil {
		return fmt.Errorf("transaction is over: %w", t.err)
	}
	if t.guard == nil {
		return nil
	}
	if err := t.guard(ctx); err != nil {
		return t.fail(err)
	}
	return nil
}

// fail keeps the failure, so that the transaction can't commit when the caller passes over the error.
func (t *Tx) fail(err error) error {
	if t.err == nil {
		t.err = err
	}
	return err
}
