package schedule

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// blocks are what blocked owners need of the store. q is the transaction.
type blocks interface {
	// Block writes the row of a blocked owner; false if the owner was blocked before.
	Block(ctx context.Context, q sqlx.ExtContext, b task.BlockedOwner) (bool, error)
	// LockBlock locks the row of a blocked owner; false if there is none.
	LockBlock(ctx context.Context, q sqlx.QueryerContext, owner string) (bool, error)
	// Unblock deletes the row of a blocked owner.
	Unblock(ctx context.Context, q sqlx.ExtContext, owner string) error
	// AwaitBlocks waits until no process makes tasks without asking for the blocks that are committed, or until ctx ends.
	AwaitBlocks(ctx context.Context)
	// NowAndBlocked is Now, and returns one of the owners that is blocked, by the rows that are committed; empty: none is.
	NowAndBlocked(ctx context.Context, q sqlx.QueryerContext, owners []string) (time.Time, string, error)
}

// blockedPages are what the list of blocked owners needs of the store.
type blockedPages interface {
	// BlockedOwners reads a page of the blocked owners, by name, after this one.
	BlockedOwners(ctx context.Context, after string, limit int) ([]task.BlockedOwner, error)
}

// BlockOwner blocks the owner, as when a player is banned: it cancels all pending tasks of the owner, stops the recurrences, and
// returns how many tasks it has cancelled. From its answer on, no task of the owner takes effect, and each call that would make one
// answers task.ErrOwnerBlocked, until UnblockOwner. The first of its transactions blocks, and the others cancel, up to
// task.MaxPerCall tasks each: after an error the owner may be blocked, and a task that is being run may still take effect; the call
// may be repeated. A task that is being run is waited for, for as long as the session waits for a lock; then the answer is
// task.ErrRunning. What a transaction that began before has scheduled, and commits later, does not run either.
func (c *Client) BlockOwner(ctx context.Context, owner string) (cancelled int, err error) {
	return blockOwner(ctx, owner, c.InTx)
}

// transactor runs a function in a transaction.
type transactor func(ctx context.Context, fn func(tx *Tx) error) error

// inTxAs is InTx by an actor, with the lines of the history in the transaction.
func (c *Client) inTxAs(actor string) transactor {
	return func(ctx context.Context, fn func(tx *Tx) error) error {
		return c.InTx(ctx, func(tx *Tx) error {
			if err := fn(tx.As(actor)); err != nil {
				return err
			}
			return tx.ledger.Record(ctx)
		})
	}
}

func blockOwner(ctx context.Context, owner string, inTx transactor) (cancelled int, err error) {
	err = inTx(ctx, func(tx *Tx) error { return tx.block(ctx, owner) })
	for more := err == nil; more; {
		var ended []task.Task
		err = inTx(ctx, func(tx *Tx) error {
			ended, more, err = tx.endOwner(ctx, owner)
			return err
		})
		if err != nil {
			break
		}
		cancelled += len(ended)
	}
	if err != nil {
		return cancelled, fmt.Errorf("block owner %s: %w", owner, err)
	}
	return cancelled, nil
}

// UnblockOwner ends a block. First it cancels what a transaction has left pending that began before the block and ended after it. An
// owner who is not blocked stays as it is.
func (c *Client) UnblockOwner(ctx context.Context, owner string) error {
	return unblockOwner(ctx, owner, c.InTx)
}

func unblockOwner(ctx context.Context, owner string, inTx transactor) error {
	for more := true; more; {
		err := inTx(ctx, func(tx *Tx) (err error) {
			more, err = tx.unblock(ctx, owner)
			return err
		})
		if err != nil {
			return fmt.Errorf("unblock owner %s: %w", owner, err)
		}
	}
	return nil
}

// BlockedOwners lists up to n of the blocked owners, at most task.MaxPerCall, by name: those after this one, and from the first
// after an empty one.
func (c *Client) BlockedOwners(ctx context.Context, after string, n int) ([]task.BlockedOwner, error) {
	if err := checkCount(n); err != nil || n <= 0 {
		return nil, err
	}
	return c.store.BlockedOwners(ctx, after, n)
}

// BlockOwner blocks the owner, as Client.BlockOwner does, from the commit on, and returns the tasks that it has cancelled. InTx,
// Joined.Commit and Joined.Index wait after the commit until all processes refuse the owner, for a third of a second. What others
// schedule for the owner until then is cancelled when its time comes; but a task that is being run at the commit,
// because it was scheduled and came due while this transaction was open, may take effect after it. A call of Client.BlockOwner after
// the commit rules that out. An owner with more than task.MaxPerCall pending tasks or recurrences is refused with a FieldError,
// after which the transaction can't commit: Client.BlockOwner goes on in pages.
//
// No handler waits: a block by a handler's Tx is complete a third of a second after the commit.
func (t *Tx) BlockOwner(ctx context.Context, owner string) ([]task.Task, error) {
	ctx, err := t.forTasks(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := t.beginOfOwner(ctx, owner); err != nil {
		return nil, err
	}
	ended, more, err := t.endOwner(ctx, owner)
	if err == nil && more {
		err = tooManyOfOwner("Client.BlockOwner goes on in pages")
	}
	if err == nil {
		err = t.block(ctx, owner) // last: calls that schedule may wait for the row's commit
	}
	if err != nil {
		return nil, t.ledger.Fail(err)
	}
	return ended, nil
}

// UnblockOwner ends a block, as Client.UnblockOwner does. Its limit is that of BlockOwner.
func (t *Tx) UnblockOwner(ctx context.Context, owner string) error {
	ctx, err := t.forTasks(ctx)
	if err != nil {
		return err
	}
	more, err := t.unblock(ctx, owner)
	if err == nil && more {
		err = t.ledger.Fail(tooManyOfOwner("Client.UnblockOwner goes on in pages"))
	}
	return err
}

// block writes the row by which the owner is blocked.
func (t *Tx) block(ctx context.Context, owner string) error {
	now, err := t.beginOfOwner(ctx, owner)
	if err != nil {
		return err
	}
	isNew, err := t.rows.Block(ctx, t.db, task.BlockedOwner{Owner: owner, At: now, Actor: t.ledger.Actor()})
	if err != nil {
		return t.ledger.Fail(ledger.AsRunning(err))
	}
	delete(t.unblocked, owner)
	t.blocks = true
	if isNew {
		t.ledger.Note(protocol.Event{At: now, Name: protocol.EventBlocked, Detail: owner})
	}
	return nil
}

// unblock ends what is left of a blocked owner, and then the block. more says that there is more than one transaction takes, and
// that the block stands.
func (t *Tx) unblock(ctx context.Context, owner string) (more bool, err error) {
	now, err := t.beginOfOwner(ctx, owner)
	if err != nil {
		return false, err
	}
	blocked, err := t.rows.LockBlock(ctx, t.db, owner)
	if err != nil {
		return false, t.ledger.Fail(ledger.AsRunning(err))
	}
	if !blocked {
		return false, nil
	}
	if _, more, err = t.endOwner(ctx, owner); err != nil || more {
		return more, err
	}
	if err := t.rows.Unblock(ctx, t.db, owner); err != nil {
		return false, t.ledger.Fail(err)
	}
	t.ledger.Note(protocol.Event{At: now, Name: protocol.EventUnblocked, Detail: owner})
	return false, nil
}

func (t *Tx) beginOfOwner(ctx context.Context, owner string) (time.Time, error) {
	if err := task.CheckOwner(owner); err != nil {
		return time.Time{}, err
	}
	if err := t.checkUsable(ctx); err != nil {
		return time.Time{}, err
	}
	now, err := t.ledger.Now(ctx)
	if err != nil {
		return time.Time{}, t.ledger.Fail(err)
	}
	return now, nil
}

// endOwner stops the owner's recurrences and cancels the pending tasks, up to task.MaxPerCall of each, and returns the tasks that it
// has cancelled. more says that others are left, or that a recurrence which began meanwhile has made a tick.
func (t *Tx) endOwner(ctx context.Context, owner string) (cancelled []task.Task, more bool, err error) {
	mark := t.ledger.Mark()
	all, err := t.rows.OwnerRecurrences(ctx, t.db, owner, task.MaxPerCall+1) // not all: the next page would list them once more
	if err != nil {
		return nil, false, t.ledger.Fail(err)
	}
	if len(all) > task.MaxPerCall {
		all, more = all[:task.MaxPerCall], true
	}
	if _, err := t.stopAll(ctx, owner, all); err != nil {
		return nil, false, err
	}
	locked, err := t.lockOwner(ctx, "cancel", owner, "")
	if err != nil {
		return nil, false, err
	}
	if len(locked) > task.MaxPerCall {
		locked, more = locked[:task.MaxPerCall], true
	}
	if len(locked) > 0 {
		if _, err := t.transit(ctx, "cancel", locked, cancel); err != nil {
			return nil, false, err
		}
	}
	for _, row := range t.ledger.Touched(mark) {
		if row.State == task.Cancelled {
			cancelled = append(cancelled, row)
		} else {
			more = true
		}
	}
	return cancelled, more, nil
}

// nowUnlessBlocked is Now for a call that makes tasks of these owners. It answers task.ErrOwnerBlocked if one of them is blocked. It
// asks for each owner once in a transaction, in the statement that reads the clock if there is none before.
func (t *Tx) nowUnlessBlocked(ctx context.Context, owners ...string) (time.Time, error) {
	ask := slices.Compact(slices.Sorted(slices.Values(owners)))
	ask = slices.DeleteFunc(ask, func(owner string) bool { return t.unblocked[owner] || task.CheckOwner(owner) != nil })
	if len(ask) == 0 {
		now, err := t.ledger.Now(ctx)
		if err != nil {
			return now, t.ledger.Fail(err)
		}
		return now, nil
	}
	now, blocked, err := t.rows.NowAndBlocked(ctx, t.db, ask)
	if err != nil {
		return time.Time{}, t.ledger.Fail(fmt.Errorf("read the database's clock: %w", err))
	}
	t.ledger.SetNow(now)
	if blocked != "" {
		return t.ledger.Moment(), fmt.Errorf("schedule for owner %s: %w", blocked, task.ErrOwnerBlocked)
	}
	t.assumeUnblocked(ask)
	return t.ledger.Moment(), nil
}

// assumeUnblocked names owners for whom nowUnlessBlocked does not ask.
func (t *Tx) assumeUnblocked(owners []string) {
	if t.unblocked == nil {
		t.unblocked = make(map[string]bool, len(owners))
	}
	for _, owner := range owners {
		t.unblocked[owner] = true
	}
}

func tooManyOfOwner(advice string) error {
	return &task.FieldError{Field: "tasks", Problem: fmt.Sprintf("must be at most %d in one transaction: %s", task.MaxPerCall, advice)}
}
