package schedule

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"go.opentelemetry.io/otel/trace"

	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/statement"
	"github.com/duetime/duetime/pkg/task"
)

// Rows is what a transaction needs of the store. Our own wiring alone makes one, of internal/store.
type Rows interface {
	ledger.Rows
	rowReader   // tx_read.go
	rowWriter   // tx_change.go
	recurrences // recur.go
	operations  // bulk.go
	labeler     // tx_labels.go
	blocks      // block.go
}

// Tx is one try of a transaction: the service's own statements, and the changes of tasks that commit or vanish with
// them. Like the connection under it, it is for one goroutine at a time, and ends with the function that got it.
type Tx struct {
	db     handle
	rows   Rows
	ledger *ledger.Tx                  // what this try does
	guard  func(context.Context) error // nil, or what must hold before each change
	kinds  *Kinds                      // that may be scheduled; nil: all
	watch  statement.Guard             // of the service's own statements, in a transaction of ours
	marks  map[string]int              // in the ledger, of the savepoints that the service has set through this Tx, by their names

	unblocked map[string]bool        // owners who were not blocked when this transaction asked
	blocks    bool                   // it has blocked an owner
	inScope   func(kind string) bool // which kinds of recurrences Recur may redefine; nil: all

	before  SpecFunc  // sees what is scheduled; nil: none
	settler Settler   // nil: the client has no handlers
	asOf    time.Time // the time of the task whose handler this is for; zero: see from

	renewed []task.ID                 // whose moves begin their attempts anew
	renewal func(task.Task) task.Task // begins them anew

	tracer trace.Tracer // nil: no spans; what is scheduled carries its caller's trace context all the same
}

// NewTx wraps a transaction that its caller begins, commits and rolls back. It is for our own worker; services use
// Client.InTx and Client.Join.
func NewTx(tx *sqlx.Tx, rows Rows) *Tx {
	return &Tx{db: tx, rows: rows, ledger: ledger.NewTx(tx, rows, task.ActorWorker)}
}

// Ledger is the list of what this try does. It is for our own worker, daemon and console.
func (t *Tx) Ledger() *ledger.Tx { return t.ledger }

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
	t.ledger.As(actor)
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
	now, err := t.ledger.Now(ctx)
	return t.from(now), err
}

// from is the moment from which due times count: the transaction's, but for a handler that runs in a caller's transaction.
func (t *Tx) from(now time.Time) time.Time {
	if t.asOf.IsZero() {
		return now
	}
	return t.asOf
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
func (t *Tx) Err() error { return t.ledger.Err() }

// RecordHistory writes the lines about the changes so far into the transaction itself, instead of after its commit: they are
// written exactly if the changes are. It costs a statement.
func (t *Tx) RecordHistory(ctx context.Context) error { return t.ledger.Record(ctx) }

// checkUsable refuses a change in a transaction that is over.
func (t *Tx) checkUsable(ctx context.Context) error {
	if err := t.ledger.Err(); err != nil {
		return fmt.Errorf("transaction is over: %w", err)
	}
	if t.guard == nil {
		return nil
	}
	if err := t.guard(ctx); err != nil {
		return t.ledger.Fail(err)
	}
	return nil
}
