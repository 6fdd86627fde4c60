package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/recurrence"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// operated is what operations need of MySQL. q is the page's transaction.
type operated interface {
	// RunningOperations reads all running operations, the oldest first.
	RunningOperations(ctx context.Context) ([]task.Operation, error)
	// LockOperation locks an operation's row; false if there is none.
	LockOperation(ctx context.Context, q sqlx.ExtContext, id task.ID) (task.Operation, bool, error)
	SaveOperation(ctx context.Context, q sqlx.ExtContext, o task.Operation) error
	// NextIDs reads the ids of the next tasks that the operation may be about: at most limit of them, among the next scan rows.
	// It returns up to where it has looked, and whether no row was left.
	NextIDs(ctx context.Context, q sqlx.QueryerContext, o task.Operation, scan, limit int) (
		ids []task.ID, next task.ID, over bool, err error)
	// LockFree locks those of the rows that no other transaction has locked. The time is the moment of the changes.
	LockFree(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, time.Time, error)
	// Get and GetRecurrences read rows without locking them.
	Get(ctx context.Context, q sqlx.QueryerContext, ids []task.ID) ([]task.Task, error)
	GetRecurrences(ctx context.Context, q sqlx.QueryerContext, ids []task.ID) ([]task.Recurrence, error)
	// LockFreeRecurrences locks those of the recurrences that are free and whose newest task is one of these, and returns them.
	LockFreeRecurrences(ctx context.Context, q sqlx.ExtContext, ids, newest []task.ID) ([]task.Recurrence, error)
	// PurgeOperations is PurgeHistory for operations that are over.
	PurgeOperations(ctx context.Context, before time.Time, limit int) (int, error)
	// Retryable reports whether a transaction did not commit and may do so when it is run once more.
	Retryable(err error) bool
}

// errLocked says that others have locked rows of a page, which was rolled back.
var errLocked = errors.New("rows of the page are locked by others")

// retriedAtOnce is how many dead rows one statement writes: if one of them is refused, each is written by itself.
const retriedAtOnce = 100

// operationPage changes the next rows of an operation, in one transaction:
//
//  1. Lock the operation's row, and read its state and cursor: an operation that was paused or cancelled ends here, and of two
//     daemons one waits for the other. The page waits for no row of a task or a recurrence, so a caller that has locked such
//     rows may wait for the page.
//  2. Read the ids of the next rows that may match, without locks.
//  3. Lock those rows that are free. If others have locked some, roll back, and try again a little later: no row stays locked
//     while the page waits. The last try leaves them alone.
//  4. Compare each row once more, under its lock, and make its transition.
//  5. Lock the recurrences whose newest task ends, as in 3: a worker holds one while it runs the task before.
//  6. Save the rows, the next ticks of recurrences, the lines of the history, and the operation's cursor and counts. Commit.
//
// Whatever dies, the cursor and the changes stand together or not at all: no row is changed twice, and none is left out.
// After the commit the rows are put into the index.
type operationPage struct {
	r    *Reconciler
	scan int  // rows to look at
	size int  // rows to change at most
	last bool // rows that others have locked are left alone

	sql *sqlx.Tx
	tx  *ledger.Tx

	operation        task.Operation // after the page
	at               time.Time      // the moment of the changes
	changes          []transition.Change
	ended, unchanged int
	newest           map[task.ID]bool // tasks that end, and whose recurrences are locked
	progress         recurrence.Progress
}

func (p *operationPage) run(ctx context.Context, id task.ID) error {
	_, err := ledger.Transact(ctx, p.r.store, p.r.cfg.Hooks, func(began *sqlx.Tx) (*ledger.Tx, error) {
		p.sql, p.tx = began, ledger.NewTx(began, p.r.store, p.r.cfg.Name)
		return p.tx, p.steps(ctx, id)
	})
	return err
}

func (p *operationPage) steps(ctx context.Context, id task.ID) error {
	o, found, err := p.r.store.LockOperation(ctx, p.sql, id)
	if err != nil {
		return err
	}
	if !found {
		o.State = task.OperationCancelled // somebody has deleted it
	}
	if p.operation = o; o.State != task.OperationRunning {
		return nil
	}
	if err := o.Check(); err != nil {
		return p.refuse(ctx, err)
	}
	ids, next, over, err := p.r.store.NextIDs(ctx, p.sql, o, p.scan, transition.Room(o, p.size))
	if err != nil {
		return err
	}
	rows, now, err := p.r.store.LockFree(ctx, p.sql, ids)
	if err != nil {
		return err
	}
	p.at = now
	if len(rows) < len(ids) {
		if err := p.leaveLocked(ctx, ids, rows); err != nil {
			return err
		}
	}
	p.transit(rows)
	if err := p.lockRecurrences(ctx); err != nil {
		return err
	}
	if err := p.save(ctx); err != nil {
		return err
	}
	return p.advance(ctx, next, over, len(ids))
}

// refuse pauses an operation that this program can't read.
func (p *operationPage) refuse(ctx context.Context, cause error) error {
	now, err := p.tx.Now(ctx)
	if err != nil {
		return err
	}
	p.operation = transition.RefuseOperation(p.operation, fmt.Errorf("it can't be read: %w", cause), now)
	p.note(protocol.EventPaused, p.operation.Error)
	if err := p.tx.Record(ctx); err != nil {
		return err
	}
	return p.r.store.SaveOperation(ctx, p.sql, p.operation)
}

// leaveLocked counts the rows that others have locked, if this is the last try. A row that was deleted has ended.
func (p *operationPage) leaveLocked(ctx context.Context, ids []task.ID, locked []task.Task) error {
	if !p.last {
		return errLocked
	}
	free := map[task.ID]bool{}
	for _, row := range locked {
		free[row.ID] = true
	}
	missing := slices.DeleteFunc(slices.Clone(ids), func(id task.ID) bool { return free[id] })
	there, err := p.r.store.Get(ctx, p.sql, missing)
	p.unchanged, p.ended = len(there), len(missing)-len(there)
	return err
}

// transit compares the locked rows with the operation, and makes their transitions.
func (p *operationPage) transit(rows []task.Task) {
	for _, row := range rows {
		switch {
		case transition.OperationTooLate(p.operation, row):
			p.ended++
		case transition.OperationMatches(p.operation, row):
			changed, err := transition.Apply(p.operation, row, p.at)
			if err != nil { // a time out of bounds
				p.unchanged++
				continue
			}
			p.changes = append(p.changes, transition.Change{Before: row, After: changed})
		}
	}
}

// lockRecurrences locks the recurrences that need a next tick, and leaves a task alone whose recurrence others have locked.
func (p *operationPage) lockRecurrences(ctx context.Context) error {
	var ids, ended []task.ID
	for _, c := range p.changes {
		if id, _, tick := c.After.Tick(); tick && c.Before.State == task.Pending && c.After.State != task.Pending {
			ids, ended = append(ids, id), append(ended, c.After.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	locked, err := p.r.store.LockFreeRecurrences(ctx, p.sql, ids, ended)
	if err != nil {
		return err
	}
	for _, r := range locked {
		p.newest[r.Newest] = true
	}
	p.progress.Know(locked)
	p.progress.MakeAfter(p.operation.CreatedAt) // or the operation would cancel these too
	if len(locked) == len(ids) {
		return nil
	}
	read, err := p.r.store.GetRecurrences(ctx, p.sql, ids)
	if err != nil {
		return err
	}
	held := map[task.ID]bool{}
	for _, r := range read {
		held[r.Newest] = !p.newest[r.Newest]
	}
	if n := p.leave(held); n > 0 && !p.last {
		return errLocked
	}
	return nil
}

// leave leaves some of the rows alone, and returns their number.
func (p *operationPage) leave(these map[task.ID]bool) int {
	n := len(p.changes)
	p.changes = slices.DeleteFunc(slices.Clone(p.changes), func(c transition.Change) bool { return these[c.After.ID] })
	n -= len(p.changes)
	p.unchanged += n
	return n
}

// save writes the changed rows, the lines about them, and the next ticks of recurrences.
func (p *operationPage) save(ctx context.Context) error {
	p.tx.As(p.operation.Actor)
	defer p.tx.As(p.r.cfg.Name)
	if err := p.writeAll(ctx); err != nil {
		return err
	}
	for _, c := range p.changes {
		if p.newest[c.After.ID] {
			p.progress.Ended(c.After, p.at)
		}
	}
	if err := p.tx.Advance(ctx, &p.progress, p.at); err != nil {
		return err
	}
	return p.tx.Record(ctx)
}

// writeAll leaves dead rows alone whose key another task has, or whose owner is blocked.
func (p *operationPage) writeAll(ctx context.Context) error {
	if len(p.changes) == 0 {
		return nil
	}
	size := len(p.changes)
	if p.changes[0].Before.State == task.Dead {
		size = retriedAtOnce
	}
	left := map[task.ID]bool{}
	for part := range slices.Chunk(p.changes, size) {
		refused, err := p.write(ctx, part)
		if err != nil {
			return err
		}
		if !refused {
			continue
		}
		for i, c := range part {
			if left[c.After.ID], err = p.write(ctx, part[i:i+1]); err != nil {
				return err
			}
		}
	}
	p.leave(left)
	return nil
}

// write reports whether the server has taken back the statement, and nothing else of the transaction.
func (p *operationPage) write(ctx context.Context, part []transition.Change) (refused bool, err error) {
	lines, mark := make([]protocol.Event, len(part)), p.tx.Mark()
	for i, c := range part {
		lines[i] = transition.OperationEvent(p.operation, c.Before, c.After)
	}
	err = p.tx.Save(ctx, part, lines)
	if errors.Is(err, task.ErrKeyTaken) || errors.Is(err, task.ErrOwnerBlocked) {
		p.tx.Rewind(mark)
		return true, nil
	}
	return false, err
}

// advance writes how far the operation has come.
func (p *operationPage) advance(ctx context.Context, next task.ID, over bool, looked int) error {
	o := &p.operation
	o.Cursor, o.UpdatedAt = next, p.at
	o.Looked += int64(looked)
	o.Changed += int64(len(p.changes))
	o.Ended += int64(p.ended)
	o.Unchanged += int64(p.unchanged)
	if over || transition.Room(*o, 1) == 0 {
		*o = transition.EndOperation(*o, p.at)
		p.note(protocol.EventOver, fmt.Sprintf("%d changed, %d had ended, %d left alone", o.Changed, o.Ended, o.Unchanged))
		if err := p.tx.Record(ctx); err != nil {
			return err
		}
	}
	return p.r.store.SaveOperation(ctx, p.sql, *o)
}

// note adds a line of the history about the operation, by the daemon.
func (p *operationPage) note(name, detail string) {
	p.tx.Note(protocol.Event{At: p.operation.UpdatedAt, Task: p.operation.ID, Name: name, Detail: detail})
}
