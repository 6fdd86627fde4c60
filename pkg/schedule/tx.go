package schedule

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
	"go.opentelemetry.io/otel/trace"

	"github.com/duetime/duetime/internal/inside"
	"github.com/duetime/duetime/internal/kinds"
	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/protocol"
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
	groups      // tx_group.go
	renamed     // tx_renamed.go
}

// Tx is one try of a transaction: the service's own statements, and the changes of tasks that commit or vanish with
// them. Like the connection under it, it is for one goroutine at a time, and ends with the function that got it.
//
// A handler gets the transaction in which its tasks end, which it shares with other tasks of the batch: whatever it does takes effect
// with them or not at all. Statements that would end the transaction are refused: COMMIT, ROLLBACK, LOCK TABLES, DDL but for temporary
// tables, SET autocommit. Each statement also ends with the handler's time, whatever context it is given.
//
// To a handler, tasks of the batch that have run answer task.ErrAlreadyDone. Those whose turn has not come can be moved and cancelled
// like any other, and will not run then. A handler may move or replace its own task: it stays pending then, and since it has succeeded
// its attempts begin anew. It may change the recurrence of its task too: the task goes on to its end.
type Tx struct {
	db     handle
	rows   Rows
	ledger *ledger.Tx                  // what this try does
	guard  func(context.Context) error // nil, or what must hold before each change
	call   inside.Call                 // nil, or the call of a handler that uses the transaction
	kinds  *kinds.Kinds                // that may be scheduled; nil: all
	watch  statement.Guard             // of the service's own statements, in a transaction of ours
	marks  map[string]int              // in the ledger, of the savepoints that the service has set through this Tx, by their names

	doubtful bool // the answer to the last statement was an error, or is read elsewhere: see checkDoubt
	prepared bool // the answers to prepared statements are

	unblocked map[string]bool        // owners who were not blocked when this transaction asked
	blocks    bool                   // it has blocked an owner
	inScope   func(kind string) bool // which kinds of recurrences Recur may redefine; nil: all

	before  SpecFunc  // sees what is scheduled; nil: none
	settler Settler   // nil: the client has no handlers
	asOf    time.Time // the time of the task whose handler this is for; zero: see from

	own     []task.ID                 // the call's own tasks, whose moves begin their attempts anew
	renewal func(task.Task) task.Task // begins them anew

	tracer trace.Tracer // nil: no spans; what is scheduled carries its caller's trace context all the same
}

// NewTx wraps a transaction that its caller begins, commits and rolls back. It is for our own worker; services use
// Client.InTx and Client.Join.
func NewTx(tx *sqlx.Tx, rows Rows) *Tx {
	return &Tx{db: tx, rows: rows, ledger: ledger.NewTx(tx, rows, protocol.ActorWorker)}
}

// As names who makes the changes of this transaction, for their lines in the history, in place of the client's
// Config.Actor: an operator who is signed in to a page of the service, for example. Call it before the first change. A name
// of more than 128 bytes is cut. In a handler it changes nothing: the lines of all tasks of a batch are the worker's.
func (t *Tx) As(actor string) *Tx {
	if t.call == nil {
		t.ledger.As(actor)
	}
	return t
}

// Now is the moment of this transaction on the database's clock, exact to the millisecond: read at the first call or
// the first change that needs it, and the same from then on. In a handler it is never before the task's own time, also when that
// clock is set back meanwhile.
func (t *Tx) Now(ctx context.Context) (time.Time, error) {
	if t.call != nil {
		return t.call.Now(ctx)
	}
	return t.ledger.Now(ctx)
}

// from is the moment from which due times count: the transaction's, but for a handler that runs in a caller's transaction.
func (t *Tx) from(now time.Time) time.Time {
	if t.asOf.IsZero() {
		return now
	}
	return t.asOf
}

// renew is what becomes of a task that was moved.
func (t *Tx) renew(moved task.Task) task.Task {
	if moved.State == task.Pending && slices.Contains(t.own, moved.ID) {
		return t.renewal(moved)
	}
	return moved
}

// forTasks prepares for a call about tasks, which goes on with the context that it returns.
func (t *Tx) forTasks(ctx context.Context) (context.Context, error) {
	if t.call == nil {
		return ctx, nil
	}
	return t.call.ForTasks(ctx)
}

// usable is forTasks for a change, which it refuses in a transaction that is over.
func (t *Tx) usable(ctx context.Context) (context.Context, error) {
	ctx, err := t.forTasks(ctx)
	if err != nil {
		return nil, err
	}
	return ctx, t.checkUsable(ctx)
}

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
