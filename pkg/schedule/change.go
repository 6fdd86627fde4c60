package schedule

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// transition computes a task's next version at the transaction's moment.
type transition func(t task.Task, now time.Time) (task.Task, error)

func move(when task.When) transition {
	return func(t task.Task, now time.Time) (task.Task, error) {
		if t.State != task.Pending {
			return t.Move(now, now) // says how it ended
		}
		due, err := when.Due(now)
		if err != nil {
			return t, err
		}
		return t.Move(due, now)
	}
}

func shift(d time.Duration) transition {
	return func(t task.Task, now time.Time) (task.Task, error) { return t.Shift(d, now) }
}

func cancel(t task.Task, now time.Time) (task.Task, error) { return t.Cancel(now) }

// Reschedule moves the task to another due time, which is then also that of its next try, and returns it as moved. A task that has ended answers
// task.ErrAlreadyDone, ErrAlreadyCancelled or ErrAlreadyDead, an unknown id task.ErrNotFound, and one that is being run
// by an outside handler task.ErrRunning, after which the transaction can't commit.
func (t *Tx) Reschedule(ctx context.Context, id task.ID, when task.When) (task.Task, error) {
	return t.one(ctx, "reschedule", id, move(when))
}

// Shift moves the task by d and returns it as moved: for d < 0 to min(due, max(due+d, now)). The next try of a task that waits
// for a retry, or rests, moves by d too: for d ≥ 0 it never comes nearer. Its errors are those of Reschedule.
func (t *Tx) Shift(ctx context.Context, id task.ID, d time.Duration) (task.Task, error) {
	return t.one(ctx, "shift", id, shift(d))
}

// Cancel takes the task back: its effect will never commit. Its errors are those of Reschedule.
func (t *Tx) Cancel(ctx context.Context, id task.ID) (task.Task, error) {
	return t.one(ctx, "cancel", id, cancel)
}

// RescheduleMany moves up to task.MaxPerCall tasks to one due time. It is all or nothing: an error names the first id
// that could not be moved, and nothing of the call was changed. The tasks come back in the order of the ids; an id given
// twice is changed once.
func (t *Tx) RescheduleMany(ctx context.Context, ids []task.ID, when task.When) ([]task.Task, error) {
	return t.many(ctx, "reschedule", ids, move(when))
}

// ShiftMany is Shift for up to task.MaxPerCall tasks, all or nothing as RescheduleMany.
func (t *Tx) ShiftMany(ctx context.Context, ids []task.ID, d time.Duration) ([]task.Task, error) {
	return t.many(ctx, "shift", ids, shift(d))
}

// CancelMany is Cancel for up to task.MaxPerCall tasks, all or nothing as RescheduleMany.
func (t *Tx) CancelMany(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	return t.many(ctx, "cancel", ids, cancel)
}

// ShiftOwner shifts all pending tasks of the owner, of one kind or ("") of any, and returns them. An owner with more than
// task.MaxPerCall of them is refused with a FieldError; nothing was changed then: list them by Client.TasksPage, and shift
// them by ShiftMany, a page in each transaction.
func (t *Tx) ShiftOwner(ctx context.Context, owner, kind string, d time.Duration) ([]task.Task, error) {
	return t.whole(ctx, "shift", owner, kind, shift(d))
}

// CancelOwner cancels all pending tasks of the owner, of one kind or ("") of any, and returns them. Its limit is that of
// ShiftOwner; Client.CancelOwner has none.
func (t *Tx) CancelOwner(ctx context.Context, owner, kind string) ([]task.Task, error) {
	return t.whole(ctx, "cancel", owner, kind, cancel)
}

// Get reads the task without locking it: by the time of the next statement it may have changed.
func (t *Tx) Get(ctx context.Context, id task.ID) (task.Task, error) {
	found, err := t.rows.Get(ctx, t.db, []task.ID{id})
	if err != nil {
		return task.Task{}, fmt.Errorf("get task %s: %w", id, err)
	}
	if len(found) == 0 {
		return task.Task{}, fmt.Errorf("get %s: %w", id, task.ErrNotFound)
	}
	return found[0], nil
}

// GetMany is Get for up to task.MaxPerCall tasks, in no order; unknown ids are absent.
func (t *Tx) GetMany(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	if err := checkCount(len(ids)); err != nil || len(ids) == 0 {
		return nil, err
	}
	found, err := t.rows.Get(ctx, t.db, ids)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", several(ids), err)
	}
	return found, nil
}

// ListOwner reads the owner's pending tasks, of one kind or ("") of any, by run_at, without locking them.
func (t *Tx) ListOwner(ctx context.Context, owner, kind string) ([]task.Task, error) {
	if err := task.CheckOwner(owner); err != nil {
		return nil, err
	}
	found, err := t.rows.ListOwner(ctx, t.db, owner, kind)
	if err != nil {
		return nil, fmt.Errorf("list tasks of owner %s: %w", owner, err)
	}
	return found, nil
}

func (t *Tx) one(ctx context.Context, verb string, id task.ID, next transition) (task.Task, error) {
	changed, err := t.many(ctx, verb, []task.ID{id}, next)
	if err != nil {
		return task.Task{}, err
	}
	return changed[0], nil
}

func (t *Tx) many(ctx context.Context, verb string, ids []task.ID, next transition) ([]task.Task, error) {
	if err := checkCount(len(ids)); err != nil || len(ids) == 0 {
		return nil, err
	}
	if err := t.ready(ctx); err != nil {
		return nil, err
	}
	locked, err := t.rows.Lock(ctx, t.db, inOrder(ids))
	if err != nil {
		return nil, t.spoil(fmt.Errorf("%s %s: lock: %w", verb, several(ids), running(err)))
	}
	byID := make(map[task.ID]task.Task, len(locked))
	for _, row := range locked {
		byID[row.ID] = row
	}
	for _, id := range ids {
		if _, ok := byID[id]; !ok {
			return nil, fmt.Errorf("%s %s: %w", verb, id, task.ErrNotFound)
		}
	}
	changed, err := t.apply(ctx, verb, locked, next)
	if err != nil {
		return nil, err
	}
	for _, row := range changed {
		byID[row.ID] = row
	}
	out := make([]task.Task, len(ids))
	for i, id := range ids {
		out[i] = byID[id]
	}
	return out, nil
}

func (t *Tx) whole(ctx context.Context, verb, owner, kind string, next transition) ([]task.Task, error) {
	if err := task.CheckOwner(owner); err != nil {
		return nil, err
	}
	if err := t.ready(ctx); err != nil {
		return nil, err
	}
	locked, now, err := t.rows.LockOwner(ctx, t.db, owner, kind)
	if err != nil {
		return nil, t.spoil(fmt.Errorf("%s tasks of owner %s: lock: %w", verb, owner, running(err)))
	}
	if t.now.IsZero() {
		t.now = now
	}
	if len(locked) == 0 {
		return nil, nil
	}
	if len(locked) > task.MaxPerCall {
		return nil, &task.FieldError{Field: "tasks", Problem: fmt.Sprintf("must be at most %d in one transaction: %s",
			task.MaxPerCall, wayOut[verb])}
	}
	return t.apply(ctx, verb, locked, next)
}

// wayOut is what to do instead of changing all of an owner's tasks in one transaction.
var wayOut = map[string]string{
	"cancel": "Client.CancelOwner goes on in pages",
	"shift":  "list them by Client.TasksPage and use ShiftMany for each page",
}

// apply writes the transition of locked rows, all of them or none.
func (t *Tx) apply(ctx context.Context, verb string, locked []task.Task, next transition) ([]task.Task, error) {
	now, err := t.Now(ctx)
	if err != nil {
		return nil, t.spoil(err)
	}
	changed := make([]task.Task, len(locked))
	for i, row := range locked {
		if changed[i], err = next(row, now); err != nil {
			return nil, fmt.Errorf("%s %s: %w", verb, row.ID, err)
		}
		changed[i] = t.renew(changed[i])
	}
	if err := t.save(ctx, verb, locked, changed); err != nil {
		return nil, err
	}
	return changed, nil
}

func (t *Tx) save(ctx context.Context, verb string, before, changed []task.Task) error {
	if err := t.write(ctx, before, changed); err != nil {
		return t.spoil(fmt.Errorf("%s %d tasks: %w", verb, len(changed), err))
	}
	t.log = append(t.log, changed...)
	for i := range changed {
		t.told = append(t.told, task.Changed(before[i], changed[i]))
	}
	return nil
}

// write saves what became of rows, the cheaper way where all moved by the same.
func (t *Tx) write(ctx context.Context, before, changed []task.Task) error {
	by := changed[0].DueAt.Sub(before[0].DueAt)
	for i, row := range changed {
		if row.DueAt.Sub(before[i].DueAt) != by {
			return t.rows.Save(ctx, t.db, changed)
		}
	}
	return t.rows.SaveShifted(ctx, t.db, changed, by)
}

func checkCount(n int) error {
	if n > task.MaxPerCall {
		return &task.FieldError{Field: "tasks", Problem: fmt.Sprintf("must be at most %d in one call", task.MaxPerCall)}
	}
	return nil
}

// inOrder returns each id once, in the order in which all transactions lock.
func inOrder(ids []task.ID) []task.ID {
	sorted := slices.Clone(ids)
	slices.SortFunc(sorted, func(a, b task.ID) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(sorted)
}

func several(ids []task.ID) string {
	if len(ids) == 1 {
		return ids[0].String()
	}
	return fmt.Sprintf("%d tasks", len(ids))
}
