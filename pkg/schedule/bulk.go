package schedule

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// operations are what operations need of the store. q is the transaction.
type operations interface {
	// InsertOperation writes a new row; false if an operation has its id already.
	InsertOperation(ctx context.Context, q sqlx.ExtContext, o task.Operation) (made bool, err error)
	// Operation reads an operation without locking it; false if there is none.
	Operation(ctx context.Context, q sqlx.QueryerContext, id task.ID) (task.Operation, bool, error)
	// LockOperation is Operation, and locks the row.
	LockOperation(ctx context.Context, q sqlx.ExtContext, id task.ID) (task.Operation, bool, error)
	// SaveOperation writes the state of a locked row.
	SaveOperation(ctx context.Context, q sqlx.ExtContext, o task.Operation) error
}

// previews are what a client needs of the store for operations outside of transactions.
type previews interface {
	// CountMatching counts the tasks that the operation would change now, if it had no limit.
	CountMatching(ctx context.Context, o task.Operation) (int64, error)
	// Matching reads some of these tasks, the earliest due first.
	Matching(ctx context.Context, o task.Operation, limit int) ([]task.Task, error)
	// Operations reads the newest operations, in any state, the newest first.
	Operations(ctx context.Context, limit int) ([]task.Operation, error)
}

// sampleTasks is how many tasks a preview shows.
const sampleTasks = 10

// maxOperations is how many operations Client.Operations lists.
const maxOperations = 1000

// Bulk makes an operation, and returns it with its id: when the transaction has committed, the daemon changes all tasks that
// the operation's filter chooses, in pages of a transaction each and in the order of their ids. It goes on after crashes,
// changes no task twice, and makes way for running tasks. Operations that run at the same time take turns.
//
// Which tasks: those that match when their turn comes. A task that was made after the operation is not changed, and one of a
// transaction that was open at that moment may be left out. Look at it by Operation; PauseOperation, ResumeOperation and
// CancelOperation stop it between two pages.
//
// If the operation has an id, the call can be repeated: once it has made the operation, it returns that one as it stands, or
// task.ErrOperationTaken if that one does something else.
//
// Input outside the limits, and a filter that chooses all tasks without saying so, answer a *task.FieldError.
func (t *Tx) Bulk(ctx context.Context, o task.Operation) (task.Operation, error) {
	if err := o.Check(); err != nil {
		return task.Operation{}, err
	}
	ctx, err := t.usable(ctx)
	if err != nil {
		return task.Operation{}, err
	}
	if o.Verb == task.VerbRequeue {
		if err := t.kinds.CheckQueue(o.To, t.hold(ctx)); err != nil {
			return task.Operation{}, err
		}
	}
	now, err := t.ledger.Now(ctx)
	if err != nil {
		return task.Operation{}, t.ledger.Fail(err)
	}
	o, err = transition.BeginOperation(o, t.ledger.Actor(), now)
	if err != nil {
		return task.Operation{}, err
	}
	made, err := t.rows.InsertOperation(ctx, t.db, o)
	if err != nil {
		return task.Operation{}, t.ledger.Fail(err)
	}
	if !made {
		return t.begun(ctx, o)
	}
	return o, t.recordOperation(ctx, o, protocol.EventBegun, o.String())
}

// begun reads the operation that an earlier call with the id has made.
func (t *Tx) begun(ctx context.Context, wanted task.Operation) (task.Operation, error) {
	o, err := t.Operation(ctx, wanted.ID)
	if err != nil {
		return task.Operation{}, err
	}
	if !transition.SameOperation(o, wanted) {
		return task.Operation{}, fmt.Errorf("%s: %w", o.ID, task.ErrOperationTaken)
	}
	return o, nil
}

// Operation reads an operation, in any state. It answers task.ErrNoOperation.
func (t *Tx) Operation(ctx context.Context, id task.ID) (task.Operation, error) {
	ctx, err := t.forTasks(ctx)
	if err != nil {
		return task.Operation{}, err
	}
	o, found, err := t.rows.Operation(ctx, t.db, id)
	if err != nil {
		return task.Operation{}, err
	}
	if !found {
		return task.Operation{}, fmt.Errorf("%s: %w", id, task.ErrNoOperation)
	}
	return o, nil
}

// PauseOperation stops an operation after the page that is under way, until it is resumed. It answers task.ErrNoOperation, or
// task.ErrOperationOver. An operation that is paused already stays as it is.
func (t *Tx) PauseOperation(ctx context.Context, id task.ID) (task.Operation, error) {
	return t.changeOperation(ctx, "pause", id, task.OperationPaused, protocol.EventPaused)
}

// ResumeOperation lets a paused operation go on where it has stopped. Its errors are those of PauseOperation.
func (t *Tx) ResumeOperation(ctx context.Context, id task.ID) (task.Operation, error) {
	return t.changeOperation(ctx, "resume", id, task.OperationRunning, protocol.EventResumed)
}

// CancelOperation ends an operation after the page that is under way. What it has changed stays so. Its errors are those of
// PauseOperation.
func (t *Tx) CancelOperation(ctx context.Context, id task.ID) (task.Operation, error) {
	return t.changeOperation(ctx, "cancel", id, task.OperationCancelled, protocol.EventStopped)
}

func (t *Tx) changeOperation(
	ctx context.Context, verb string, id task.ID, to task.OperationState, event string,
) (task.Operation, error) {
	ctx, err := t.usable(ctx)
	if err != nil {
		return task.Operation{}, err
	}
	now, err := t.ledger.Now(ctx)
	if err != nil {
		return task.Operation{}, t.ledger.Fail(err)
	}
	o, found, err := t.rows.LockOperation(ctx, t.db, id)
	if err != nil {
		return task.Operation{}, t.ledger.Fail(err)
	}
	if !found {
		return task.Operation{}, fmt.Errorf("%s %s: %w", verb, id, task.ErrNoOperation)
	}
	if o.State == to && !o.Over() {
		return o, nil
	}
	if o, err = transition.ChangeOperation(o, to, now); err != nil {
		return task.Operation{}, fmt.Errorf("%s %s: %w", verb, id, err)
	}
	if err := t.rows.SaveOperation(ctx, t.db, o); err != nil {
		return task.Operation{}, t.ledger.Fail(err)
	}
	return o, t.recordOperation(ctx, o, event, "")
}

// recordOperation writes a line of the history about an operation with it, not after the commit: it is no hot path.
func (t *Tx) recordOperation(ctx context.Context, o task.Operation, event, detail string) error {
	line := protocol.Event{At: t.ledger.Moment(), Task: o.ID, Name: event, Actor: t.ledger.Actor(), Detail: detail}
	if err := t.rows.Record(ctx, t.db, []protocol.Event{line}); err != nil {
		return t.ledger.Fail(err)
	}
	return nil
}

// Bulk is Tx.Bulk in a transaction of its own. After schedule.ErrCommitUnknown repeat it with the same id, or look
// for the operation by Operations.
func (c *Client) Bulk(ctx context.Context, o task.Operation) (task.Operation, error) {
	return inTx(ctx, c, func(tx *Tx) (task.Operation, error) { return tx.Bulk(ctx, o) })
}

// BulkPreview counts the tasks that the operation would change now, and returns up to ten of them. Set Operation.Matched to the
// count to see how much is left. It reads every task of the verb's state, but for an owner's and for Filter.IDs: about a second for a
// million.
func (c *Client) BulkPreview(ctx context.Context, o task.Operation) (count int64, sample []task.Task, err error) {
	if err := o.Check(); err != nil {
		return 0, nil, err
	}
	if count, err = c.store.CountMatching(ctx, o); err != nil || count == 0 {
		return count, nil, err
	}
	sample, err = c.store.Matching(ctx, o, transition.Room(o, sampleTasks))
	return int64(transition.Room(o, int(count))), sample, err
}

// Operation is Tx.Operation, as committed.
func (c *Client) Operation(ctx context.Context, id task.ID) (task.Operation, error) {
	return inTx(ctx, c, func(tx *Tx) (task.Operation, error) { return tx.Operation(ctx, id) })
}

// Operations lists the newest 1,000 operations, in any state, the newest first. Those that are over are kept as long as tasks
// that have ended.
func (c *Client) Operations(ctx context.Context) ([]task.Operation, error) {
	return c.store.Operations(ctx, maxOperations)
}

// PauseOperation is Tx.PauseOperation in a transaction of its own.
func (c *Client) PauseOperation(ctx context.Context, id task.ID) (task.Operation, error) {
	return inTx(ctx, c, func(tx *Tx) (task.Operation, error) { return tx.PauseOperation(ctx, id) })
}

// ResumeOperation is Tx.ResumeOperation in a transaction of its own.
func (c *Client) ResumeOperation(ctx context.Context, id task.ID) (task.Operation, error) {
	return inTx(ctx, c, func(tx *Tx) (task.Operation, error) { return tx.ResumeOperation(ctx, id) })
}

// CancelOperation is Tx.CancelOperation in a transaction of its own.
func (c *Client) CancelOperation(ctx context.Context, id task.ID) (task.Operation, error) {
	return inTx(ctx, c, func(tx *Tx) (task.Operation, error) { return tx.CancelOperation(ctx, id) })
}
