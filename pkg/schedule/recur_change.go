package schedule

import (
	"context"
	"fmt"
	"math"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/task"
)

// Recurrence reads an active or paused recurrence without locking it. It answers task.ErrNoRecurrence if there is none.
func (t *Tx) Recurrence(ctx context.Context, owner, name string) (task.Recurrence, error) {
	ctx, err := t.forTasks(ctx)
	if err != nil {
		return task.Recurrence{}, err
	}
	r, found, err := t.rows.Recurrence(ctx, t.db, owner, name)
	if err != nil {
		return task.Recurrence{}, err
	}
	if !found || r.State > task.RecurrencePaused {
		return task.Recurrence{}, fmt.Errorf("%s of owner %s: %w", name, owner, task.ErrNoRecurrence)
	}
	return r, nil
}

// Recurrences reads the owner's active and paused recurrences, by name, without locking them.
func (t *Tx) Recurrences(ctx context.Context, owner string) ([]task.Recurrence, error) {
	if err := task.CheckOwner(owner); err != nil {
		return nil, err
	}
	ctx, err := t.forTasks(ctx)
	if err != nil {
		return nil, err
	}
	return t.rows.OwnerRecurrences(ctx, t.db, owner, math.MaxInt32)
}

// PauseRecurrence takes the pending tasks back, and makes none until the recurrence is resumed; ticks meanwhile are left out, and
// nothing catches up with them. The note says why, for people. It answers task.ErrNoRecurrence, or task.ErrRunning if an outside
// handler runs one of the tasks.
func (t *Tx) PauseRecurrence(ctx context.Context, owner, name, note string) (task.Recurrence, error) {
	if len(note) > transition.MaxNote {
		return task.Recurrence{}, &task.FieldError{Field: "note", Problem: fmt.Sprintf("must be at most %d bytes", transition.MaxNote)}
	}
	return t.halt(ctx, "pause", owner, name, func(r task.Recurrence) task.Recurrence {
		t.note(r, protocol.EventPaused, note)
		return transition.PauseRecurrence(r, note, t.ledger.Moment())
	})
}

// StopRecurrence takes the pending tasks back, and makes none any more. Its errors are those of PauseRecurrence.
func (t *Tx) StopRecurrence(ctx context.Context, owner, name string) (task.Recurrence, error) {
	return t.halt(ctx, "stop", owner, name, t.stop)
}

func (t *Tx) stop(r task.Recurrence) task.Recurrence {
	t.note(r, protocol.EventStopped, r.Name)
	return transition.StopRecurrence(r, t.ledger.Moment())
}

func (t *Tx) halt(ctx context.Context, verb, owner, name string, next func(task.Recurrence) task.Recurrence) (task.Recurrence, error) {
	ctx, err := t.usable(ctx)
	if err != nil {
		return task.Recurrence{}, err
	}
	r, err := t.Recurrence(ctx, owner, name)
	if err != nil {
		return task.Recurrence{}, fmt.Errorf("%s %w", verb, err)
	}
	halted, err := t.haltAll(ctx, verb, []task.Recurrence{r}, next)
	if err != nil {
		return task.Recurrence{}, err
	}
	return halted[0], nil
}

func (t *Tx) haltAll(ctx context.Context, verb string, read []task.Recurrence, next func(task.Recurrence) task.Recurrence) ([]task.Recurrence, error) {
	if _, err := t.ledger.Now(ctx); err != nil {
		return nil, t.ledger.Fail(err)
	}
	locked, _, err := t.lockRecurrences(ctx, verb, read, takeAll)
	if err != nil {
		return nil, err
	}
	halted := make([]task.Recurrence, len(locked))
	for i, r := range locked {
		halted[i] = next(r)
	}
	if err := t.rows.SaveRecurrences(ctx, t.db, locked, halted); err != nil {
		return nil, t.ledger.Fail(err)
	}
	return halted, nil
}

// StopRecurrences stops all recurrences of the owner, as when a player is deleted, and returns them. An owner with more than
// task.MaxPerCall of them is refused with a FieldError. Those that are over are forgotten as well, after the retention. Tasks that
// no recurrence has made stay: CancelOwner cancels them.
func (t *Tx) StopRecurrences(ctx context.Context, owner string) ([]task.Recurrence, error) {
	ctx, err := t.usable(ctx)
	if err != nil {
		return nil, err
	}
	all, err := t.Recurrences(ctx, owner)
	if err != nil {
		return nil, err
	}
	if len(all) > task.MaxPerCall {
		return nil, &task.FieldError{Field: "recurrences", Problem: fmt.Sprintf("must be at most %d in one transaction", task.MaxPerCall)}
	}
	return t.stopAll(ctx, owner, all)
}

// stopAll stops these recurrences, and marks those as stopped that are over.
func (t *Tx) stopAll(ctx context.Context, owner string, all []task.Recurrence) (_ []task.Recurrence, err error) {
	if len(all) > 0 {
		if all, err = t.haltAll(ctx, "stop", all, t.stop); err != nil {
			return nil, err
		}
	}
	now, err := t.ledger.Now(ctx)
	if err == nil {
		err = t.rows.StopOver(ctx, t.db, owner, now)
	}
	if err != nil {
		return nil, t.ledger.Fail(err)
	}
	return all, nil
}

// ResumeRecurrence ends a pause: the next task is that of the first tick from now on, or of one before whose jitter is not over. An
// active recurrence stays as it is. It answers task.ErrNoRecurrence.
func (t *Tx) ResumeRecurrence(ctx context.Context, owner, name string) (task.Recurrence, error) {
	ctx, err := t.usable(ctx)
	if err != nil {
		return task.Recurrence{}, err
	}
	r, err := t.Recurrence(ctx, owner, name)
	if err != nil || r.State == task.RecurrenceActive {
		return r, err
	}
	if _, err := t.nowUnlessBlocked(ctx, owner); err != nil {
		return task.Recurrence{}, fmt.Errorf("resume %s: %w", name, err)
	}
	locked, _, err := t.lockRecurrences(ctx, "resume", []task.Recurrence{r}, takeNone)
	if err != nil {
		return task.Recurrence{}, err
	}
	next, tick := transition.BeginRecurrence(locked[0], t.ledger.Moment())
	if next, err = t.insertTick(ctx, next, tick); err != nil {
		return task.Recurrence{}, t.ledger.Fail(err)
	}
	if err := t.rows.SaveRecurrences(ctx, t.db, locked, []task.Recurrence{next}); err != nil {
		return task.Recurrence{}, t.ledger.Fail(err)
	}
	t.note(next, protocol.EventResumed, next.Name)
	return next, nil
}

// RunRecurrence makes a task that is due now, beside those of the timetable, and returns it: its tick is now. Also a paused
// recurrence runs so. It answers task.ErrNoRecurrence.
func (t *Tx) RunRecurrence(ctx context.Context, owner, name string) (task.Task, error) {
	return t.runRecurrence(ctx, owner, name, task.NewID())
}

// runRecurrence makes the task with this id, or returns the one that an earlier call has made.
func (t *Tx) runRecurrence(ctx context.Context, owner, name string, id task.ID) (task.Task, error) {
	ctx, err := t.usable(ctx)
	if err != nil {
		return task.Task{}, err
	}
	if _, err := t.nowUnlessBlocked(ctx, owner); err != nil {
		return task.Task{}, fmt.Errorf("run %s: %w", name, err)
	}
	if err := t.rows.ShareRecurrence(ctx, t.db, owner, name); err != nil { // a stop after this finds the task
		return task.Task{}, t.ledger.Fail(fmt.Errorf("run %s of owner %s: %w", name, owner, err))
	}
	r, err := t.Recurrence(ctx, owner, name)
	if err != nil {
		return task.Task{}, fmt.Errorf("run %w", err)
	}
	extra := transition.ExtraTask(r, t.ledger.Moment())
	extra.ID = id
	stands, err := t.rows.Insert(ctx, t.db, []task.Task{extra})
	if err != nil {
		return task.Task{}, t.ledger.Fail(fmt.Errorf("run %s of owner %s: %w", name, owner, err))
	}
	if row := stands[0]; row.ID == id && !row.CreatedAt.Equal(t.ledger.Moment()) { // an earlier call has made it
		if row.Owner != r.Owner || row.Kind != r.Kind {
			return task.Task{}, &task.FieldError{Field: "task_id", Problem: "must be new, or that of a task which such a call has made"}
		}
		return row, nil
	}
	t.ledger.Inserted(stands)
	t.note(r, protocol.EventExtra, "task "+stands[0].ID.String())
	return stands[0], nil
}

// Recur is Tx.Recur in a transaction of its own.
func (c *Client) Recur(ctx context.Context, name string, when recur.Timetable, spec task.Spec, policy recur.Policy) (task.Recurrence, error) {
	return inTx(ctx, c, func(tx *Tx) (task.Recurrence, error) { return tx.Recur(ctx, name, when, spec, policy) })
}

// Recurrence reads an active or paused recurrence. It answers task.ErrNoRecurrence if there is none.
func (c *Client) Recurrence(ctx context.Context, owner, name string) (task.Recurrence, error) {
	return inTx(ctx, c, func(tx *Tx) (task.Recurrence, error) { return tx.Recurrence(ctx, owner, name) })
}

// Recurrences lists the owner's active and paused recurrences, by name.
func (c *Client) Recurrences(ctx context.Context, owner string) ([]task.Recurrence, error) {
	return inTx(ctx, c, func(tx *Tx) ([]task.Recurrence, error) { return tx.Recurrences(ctx, owner) })
}

// PauseRecurrence is Tx.PauseRecurrence in a transaction of its own.
func (c *Client) PauseRecurrence(ctx context.Context, owner, name, note string) (task.Recurrence, error) {
	return inTx(ctx, c, func(tx *Tx) (task.Recurrence, error) { return tx.PauseRecurrence(ctx, owner, name, note) })
}

// ResumeRecurrence is Tx.ResumeRecurrence in a transaction of its own.
func (c *Client) ResumeRecurrence(ctx context.Context, owner, name string) (task.Recurrence, error) {
	return inTx(ctx, c, func(tx *Tx) (task.Recurrence, error) { return tx.ResumeRecurrence(ctx, owner, name) })
}

// RunRecurrence is Tx.RunRecurrence in a transaction of its own.
func (c *Client) RunRecurrence(ctx context.Context, owner, name string) (task.Task, error) {
	return inTx(ctx, c, func(tx *Tx) (task.Task, error) { return tx.RunRecurrence(ctx, owner, name) })
}

// StopRecurrence is Tx.StopRecurrence in a transaction of its own.
func (c *Client) StopRecurrence(ctx context.Context, owner, name string) (task.Recurrence, error) {
	return inTx(ctx, c, func(tx *Tx) (task.Recurrence, error) { return tx.StopRecurrence(ctx, owner, name) })
}

// StopRecurrences is Tx.StopRecurrences in a transaction of its own.
func (c *Client) StopRecurrences(ctx context.Context, owner string) ([]task.Recurrence, error) {
	return inTx(ctx, c, func(tx *Tx) ([]task.Recurrence, error) { return tx.StopRecurrences(ctx, owner) })
}
