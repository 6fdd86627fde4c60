package schedule

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// rowWriter is what changes need of the store. q is the transaction.
type rowWriter interface {
	// InsertUnlessEnded inserts new tasks, and returns for each the row that stands. Some may have been inserted before, and have ended. The time is
	// the database's.
	InsertUnlessEnded(ctx context.Context, q sqlx.ExtContext, tasks []task.Task, now time.Time) ([]task.Task, error)
	// Lock locks rows in id order and returns those that exist.
	Lock(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, error)
	// LockOwner locks the owner's pending rows ("" kind: of any kind), at most task.MaxPerCall+1, in id order. The time is
	// that of the database just before; zero if there are none.
	LockOwner(ctx context.Context, q sqlx.ExtContext, owner, kind string) ([]task.Task, time.Time, error)
	// HoldQueue keeps a queue that an operator has added until the transaction ends; false if there is none of the name.
	HoldQueue(ctx context.Context, q sqlx.QueryerContext, queue string) (bool, error)
}

// step computes a task's next version at the transaction's moment.
type step func(t task.Task, now time.Time) (task.Task, error)

func move(when task.When) step {
	return func(t task.Task, now time.Time) (task.Task, error) {
		if t.State != task.Pending {
			return transition.Move(t, now, now) // says how it ended
		}
		due, err := when.Due(now)
		if err != nil {
			return t, err
		}
		return transition.Move(t, due, now)
	}
}

func shift(d time.Duration) step {
	return func(t task.Task, now time.Time) (task.Task, error) { return transition.Shift(t, d, now) }
}

func cancel(t task.Task, now time.Time) (task.Task, error) { return transition.Cancel(t, now) }

// Reschedule moves the task to another due time, which is then also that of its next try, and returns it as moved. A task that
// has ended answers task.ErrAlreadyDone, ErrAlreadyCancelled or ErrAlreadyDead, an unknown id task.ErrNotFound, one whose condition
// is not met task.ErrUnmet, and one that is being run by an outside handler task.ErrRunning, after which the transaction can't commit.
func (t *Tx) Reschedule(ctx context.Context, id task.ID, when task.When, conditions ...Condition) (task.Task, error) {
	return t.changeOne(ctx, "reschedule", id, only(move(when), conditions))
}

// Shift moves the task by d and returns it as moved: for d < 0 to min(due, max(due+d, now)). The next try of a task that waits
// for a retry, or snoozes, moves by d too: for d ≥ 0 it never comes nearer. Its errors are those of Reschedule.
func (t *Tx) Shift(ctx context.Context, id task.ID, d time.Duration, conditions ...Condition) (task.Task, error) {
	return t.changeOne(ctx, "shift", id, only(shift(d), conditions))
}

// Cancel takes the task back: its effect will never commit. Its errors are those of Reschedule.
func (t *Tx) Cancel(ctx context.Context, id task.ID, conditions ...Condition) (task.Task, error) {
	return t.changeOne(ctx, "cancel", id, only(cancel, conditions))
}

// RescheduleMany moves up to task.MaxPerCall tasks to one due time. It is all or nothing: an error names the first id
// that could not be moved, and nothing of the call was changed. The tasks come back in the order of the ids; an id given
// twice is changed once.
func (t *Tx) RescheduleMany(ctx context.Context, ids []task.ID, when task.When) ([]task.Task, error) {
	return t.changeMany(ctx, "reschedule", ids, move(when))
}

// ShiftMany is Shift for up to task.MaxPerCall tasks, all or nothing as RescheduleMany.
func (t *Tx) ShiftMany(ctx context.Context, ids []task.ID, d time.Duration) ([]task.Task, error) {
	return t.changeMany(ctx, "shift", ids, shift(d))
}

// CancelMany is Cancel for up to task.MaxPerCall tasks, all or nothing as RescheduleMany.
func (t *Tx) CancelMany(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	return t.changeMany(ctx, "cancel", ids, cancel)
}

// ShiftOwner shifts all pending tasks of the owner, of one kind or ("") of any, and returns them. An owner with more than
// task.MaxPerCall of them is refused with a FieldError; nothing was changed then: list them by Client.TasksPage, and shift
// them by ShiftMany, a page in each transaction.
func (t *Tx) ShiftOwner(ctx context.Context, owner, kind string, d time.Duration) ([]task.Task, error) {
	return t.changeOwner(ctx, "shift", owner, kind, shift(d))
}

// CancelOwner cancels all pending tasks of the owner, of one kind or ("") of any, and returns them. Its limit is that of
// ShiftOwner; Client.CancelOwner has none.
func (t *Tx) CancelOwner(ctx context.Context, owner, kind string) ([]task.Task, error) {
	return t.changeOwner(ctx, "cancel", owner, kind, cancel)
}

func (t *Tx) changeOne(ctx context.Context, verb string, id task.ID, next step) (task.Task, error) {
	changed, err := t.changeMany(ctx, verb, []task.ID{id}, next)
	if err != nil {
		return task.Task{}, err
	}
	return changed[0], nil
}

func (t *Tx) changeMany(ctx context.Context, verb string, ids []task.ID, next step) ([]task.Task, error) {
	if err := checkCount(len(ids)); err != nil || len(ids) == 0 {
		return nil, err
	}
	ctx, err := t.forTasks(ctx)
	if err != nil {
		return nil, err
	}
	locked, err := t.lock(ctx, verb, ids)
	if err != nil {
		return nil, err
	}
	rows := protocol.ByID(locked)
	for _, id := range ids {
		if _, ok := rows[id]; !ok {
			return nil, fmt.Errorf("%s %s: %w", verb, id, task.ErrNotFound)
		}
	}
	changed, err := t.transit(ctx, verb, locked, next)
	if err != nil {
		return nil, err
	}
	for _, row := range changed {
		rows[row.ID] = row
	}
	out := make([]task.Task, len(ids))
	for i, id := range ids {
		out[i] = rows[id]
	}
	return out, nil
}

// lock locks rows and returns those that exist.
func (t *Tx) lock(ctx context.Context, verb string, ids []task.ID) ([]task.Task, error) {
	if err := t.checkUsable(ctx); err != nil {
		return nil, err
	}
	locked, err := t.rows.Lock(ctx, t.db, ids)
	if err != nil {
		return nil, t.ledger.Fail(fmt.Errorf("%s %s: lock: %w", verb, idsText(ids), ledger.AsRunning(err)))
	}
	return locked, nil
}

func (t *Tx) changeOwner(ctx context.Context, verb, owner, kind string, next step) ([]task.Task, error) {
	if err := task.CheckOwner(owner); err != nil {
		return nil, err
	}
	ctx, err := t.usable(ctx)
	if err != nil {
		return nil, err
	}
	locked, err := t.lockOwner(ctx, verb, owner, kind)
	if err != nil || len(locked) == 0 {
		return nil, err
	}
	if len(locked) > task.MaxPerCall {
		return nil, tooManyOfOwner(largeOwnerAdvice[verb])
	}
	return t.transit(ctx, verb, locked, next)
}

// lockOwner locks the owner's pending tasks, at most task.MaxPerCall+1.
func (t *Tx) lockOwner(ctx context.Context, verb, owner, kind string) ([]task.Task, error) {
	locked, now, err := t.rows.LockOwner(ctx, t.db, owner, kind)
	if err != nil {
		return nil, t.ledger.Fail(fmt.Errorf("%s tasks of owner %s: lock: %w", verb, owner, ledger.AsRunning(err)))
	}
	t.ledger.SetNow(now)
	return locked, nil
}

// largeOwnerAdvice is what to do instead of changing all of an owner's tasks in one transaction.
var largeOwnerAdvice = map[string]string{
	"cancel": "Client.CancelOwner goes on in pages",
	"shift":  "list them by Client.TasksPage and use ShiftMany for each page",
}

// transit writes the transition of locked rows, all of them or none.
func (t *Tx) transit(ctx context.Context, verb string, locked []task.Task, next step) ([]task.Task, error) {
	now, err := t.ledger.Now(ctx)
	if err != nil {
		return nil, t.ledger.Fail(err)
	}
	changes, changed := make([]transition.Change, len(locked)), make([]task.Task, len(locked))
	for i, row := range locked {
		if changed[i], err = next(row, t.from(now)); err != nil {
			return nil, fmt.Errorf("%s %s: %w", verb, row.ID, err)
		}
		changed[i] = t.renew(changed[i])
		changed[i].UpdatedAt = now
		changes[i] = transition.Change{Before: row, After: changed[i]}
	}
	if err := t.ledger.Write(ctx, changes); err != nil {
		return nil, fmt.Errorf("%s %d tasks: %w", verb, len(changes), err)
	}
	return changed, nil
}

func checkCount(n int) error {
	if n > task.MaxPerCall {
		return &task.FieldError{Field: "tasks", Problem: fmt.Sprintf("must be at most %d in one call", task.MaxPerCall)}
	}
	return nil
}

func idsText(ids []task.ID) string {
	if len(ids) == 1 {
		return ids[0].String()
	}
	return fmt.Sprintf("%d tasks", len(ids))
}
