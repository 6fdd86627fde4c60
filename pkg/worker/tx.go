package worker

import (
	"context"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/settle"
	"github.com/duetime/duetime/pkg/task"
)

// Tx is the transaction that a handler shares with the end of its tasks, and with other tasks of the batch: whatever it
// does takes effect with them or not at all. It has no Commit, and refuses statements that would end it: COMMIT, ROLLBACK,
// LOCK TABLES, DDL but for temporary tables, SET autocommit. Like the connection under it, it is for one goroutine at
// a time, and it is over when the handler returns; every statement also ends with the handler's time, whatever context
// it is given.
//
// Tasks of the batch that have run answer task.ErrAlreadyDone; tasks of the batch whose turn has not come can be moved
// and cancelled like any other and will not run then. A handler may move or replace its own task: it stays pending then, and
// since it has succeeded its attempts begin anew.
type Tx struct{ call *settle.Call }

var _ sqlx.ExtContext = (*Tx)(nil)

// Now is the moment of this transaction on the database's clock, exact to the millisecond. It is never before the task's
// own time, also when that clock is set back meanwhile.
func (t *Tx) Now(ctx context.Context) (time.Time, error) {
	now, err := t.call.Changes().Now(t.call.Bound(ctx))
	if locked := t.call.LockedAt(); err == nil && now.Before(locked) {
		now = locked
	}
	return now, err
}

// Schedule makes a task, as schedule.Tx does. A follow-up under the key of the task that is being run, whose key is free only
// when it has ended, answers ErrOwnKey and changes nothing: move the task instead, or give each follow-up a key of its own.
// KeyMove with that key moves the task, and KeyReplace gives it new data as well: its run takes effect, and it stays pending
// for the next one, as after Reschedule. task.Window answers ErrOwnKey within the window that has admitted the task.
func (t *Tx) Schedule(ctx context.Context, spec task.Spec) (task.Task, error) {
	made, err := t.ScheduleMany(ctx, []task.Spec{spec})
	if err != nil {
		return task.Task{}, err
	}
	return made[0], nil
}

// ScheduleMany makes up to task.MaxPerCall tasks, as schedule.Tx does. Its error is ErrOwnKey where that would make none.
func (t *Tx) ScheduleMany(ctx context.Context, specs []task.Spec) ([]task.Task, error) {
	specs, err := t.call.Prepare(ctx, specs)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(specs, t.mayMeet) {
		ctx = t.call.Bound(ctx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return t.call.Changes().ScheduleMany(ctx, specs) // can't meet a task that has run
	}
	return onTasks(ctx, t, func(ctx context.Context) ([]task.Task, error) {
		if err := t.refuseOwnKeys(ctx, specs); err != nil {
			return nil, err
		}
		return t.call.Changes().ScheduleMany(ctx, specs)
	})
}

// Reschedule moves the task to another due time, as schedule.Tx does.
func (t *Tx) Reschedule(ctx context.Context, id task.ID, when task.When) (task.Task, error) {
	return onTasks(ctx, t, func(ctx context.Context) (task.Task, error) { return t.call.Changes().Reschedule(ctx, id, when) })
}

// Shift moves the task by d, as schedule.Tx does.
func (t *Tx) Shift(ctx context.Context, id task.ID, d time.Duration) (task.Task, error) {
	return onTasks(ctx, t, func(ctx context.Context) (task.Task, error) { return t.call.Changes().Shift(ctx, id, d) })
}

// Cancel takes the task back, as schedule.Tx does.
func (t *Tx) Cancel(ctx context.Context, id task.ID) (task.Task, error) {
	return onTasks(ctx, t, func(ctx context.Context) (task.Task, error) { return t.call.Changes().Cancel(ctx, id) })
}

// RescheduleMany moves up to task.MaxPerCall tasks to one due time, all or nothing.
func (t *Tx) RescheduleMany(ctx context.Context, ids []task.ID, when task.When) ([]task.Task, error) {
	return onTasks(ctx, t, func(ctx context.Context) ([]task.Task, error) {
		return t.call.Changes().RescheduleMany(ctx, ids, when)
	})
}

// ShiftMany moves up to task.MaxPerCall tasks by d, all or nothing.
func (t *Tx) ShiftMany(ctx context.Context, ids []task.ID, d time.Duration) ([]task.Task, error) {
	return onTasks(ctx, t, func(ctx context.Context) ([]task.Task, error) { return t.call.Changes().ShiftMany(ctx, ids, d) })
}

// CancelMany takes up to task.MaxPerCall tasks back, all or nothing.
func (t *Tx) CancelMany(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	return onTasks(ctx, t, func(ctx context.Context) ([]task.Task, error) { return t.call.Changes().CancelMany(ctx, ids) })
}

// ShiftOwner shifts all pending tasks of the owner, of one kind or ("") of any, and returns them.
func (t *Tx) ShiftOwner(ctx context.Context, owner, kind string, d time.Duration) ([]task.Task, error) {
	return onTasks(ctx, t, func(ctx context.Context) ([]task.Task, error) {
		return t.call.Changes().ShiftOwner(ctx, owner, kind, d)
	})
}

// CancelOwner cancels all pending tasks of the owner, of one kind or ("") of any, and returns them.
func (t *Tx) CancelOwner(ctx context.Context, owner, kind string) ([]task.Task, error) {
	return onTasks(ctx, t, func(ctx context.Context) ([]task.Task, error) { return t.call.Changes().CancelOwner(ctx, owner, kind) })
}

// Get reads the task without locking it.
func (t *Tx) Get(ctx context.Context, id task.ID) (task.Task, error) {
	return onTasks(ctx, t, func(ctx context.Context) (task.Task, error) { return t.call.Changes().Get(ctx, id) })
}

// ListOwner reads the owner's pending tasks, of one kind or ("") of any, by run_at, without locking them.
func (t *Tx) ListOwner(ctx context.Context, owner, kind string) ([]task.Task, error) {
	return onTasks(ctx, t, func(ctx context.Context) ([]task.Task, error) { return t.call.Changes().ListOwner(ctx, owner, kind) })
}

// onTasks calls do with the context of a statement on tasks.
func onTasks[T any](ctx context.Context, t *Tx, do func(context.Context) (T, error)) (T, error) {
	ctx, err := t.call.BoundForTasks(ctx)
	if err != nil {
		var none T
		return none, err
	}
	return do(ctx)
}
