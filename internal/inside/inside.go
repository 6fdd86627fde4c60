// Package inside is the door to what package schedule does for our own worker, daemon, console and API alone. schedule.Inside and
// schedule.InsideClient open it to whoever has a Key: services can't name one.
package inside

import (
	"context"
	"io"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/kinds"
	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/pkg/task"
)

// Key opens the door.
type Key struct{}

// Tx is the inside of a transaction. T is *schedule.Tx.
type Tx[T any] interface {
	// Ledger is the list of what this try does.
	Ledger() *ledger.Tx
	// Only has the transaction refuse to schedule what these kinds refuse, after before has seen the specs; nil: nothing is refused,
	// nothing sees them. Call it before the first change.
	Only(allowed *kinds.Kinds, before func(ctx context.Context, spec task.Spec) (task.Spec, error))
	// AssumeUnblocked names owners who can't become blocked while this transaction is open, because it has locked a pending task of
	// each: it does not ask for them.
	AssumeUnblocked(owners []string)
	// For returns the transaction as a call of a handler uses it. A move of the call's own tasks begins their attempts anew, which
	// renew does to the moved task, because a task that moves itself has succeeded.
	For(call Call, own []task.ID, renew func(task.Task) task.Task) T
	// Handlers is the inside of a transaction for handlers that run in this one: what they do joins the same list. It returns the
	// transaction under it too.
	Handlers() (handlers Tx[T], own *sqlx.Tx)
	// AsOf has due times count from this moment: a handler that runs for a caller schedules and moves tasks as if it had run in time.
	AsOf(at time.Time)
	// EndBlocked cancels what is left of a blocked owner, up to task.MaxPerCall tasks and recurrences; nothing of one who is not
	// blocked any more.
	EndBlocked(ctx context.Context, owner string) error
	// Scope has Recur answer task.ErrNameTaken, in place of redefining a recurrence of a kind that inScope refuses, and leaves a
	// recurrence's task of such a kind as it is. Call it before the first change.
	Scope(inScope func(kind string) bool)
	// RunRecurrenceOnce is RunRecurrence for a call that may be repeated: the task gets the id, and once it is there, a call returns
	// it as it stands. An id that a task of another owner or kind has answers a *task.FieldError.
	RunRecurrenceOnce(ctx context.Context, owner, name string, id task.ID) (task.Task, error)
}

// Call is one call of a handler, which shares its transaction with other calls. Once it is over, it refuses everything.
type Call interface {
	// ForTasks prepares for a statement on tasks: tasks that have run are marked done first. The context that it returns also ends
	// with the handler's time.
	ForTasks(ctx context.Context) (context.Context, error)
	// ForSpecs is ForTasks for specs that are to be scheduled, and marks nothing where the specs can't meet a task that has run.
	ForSpecs(ctx context.Context, specs []task.Spec) (context.Context, error)
	// Admit prepares for a statement of the handler's own. followed says that Follow is called after it.
	Admit(ctx context.Context, query string, followed bool) (context.Context, error)
	// Follow calls do, unless no statement was about savepoints so far.
	Follow(do func())
	// BoundPrepared is for the context of Admit where the statement is prepared: each run of the statement ends with the handler too.
	BoundPrepared(ctx context.Context) context.Context
	// CloseAtEnd closes a result when the handler has returned.
	CloseAtEnd(result io.Closer)
	// Now is the moment of the transaction: never before its tasks were locked.
	Now(ctx context.Context) (time.Time, error)
}

// Client is the inside of a client.
type Client interface {
	// Ledger is where the client's transactions are committed.
	Ledger() *ledger.Ledger
	// BlockOwner is BlockOwner by an actor, as Tx.As names it. Each transaction writes its lines of the history with its changes.
	BlockOwner(ctx context.Context, actor, owner string) (cancelled int, err error)
	// UnblockOwner is UnblockOwner by an actor likewise.
	UnblockOwner(ctx context.Context, actor, owner string) error
}
