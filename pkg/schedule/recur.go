package schedule

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/recurrence"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/task"
)

// recurrences are what recurrences need of the store. q is the transaction.
type recurrences interface {
	// Recurrence reads an owner's recurrence, in any state, without locking it; false if there is none.
	Recurrence(ctx context.Context, q sqlx.QueryerContext, owner, name string) (task.Recurrence, bool, error)
	// OwnerRecurrences reads the first limit of the owner's active and paused recurrences, by name, without locking them.
	OwnerRecurrences(ctx context.Context, q sqlx.QueryerContext, owner string, limit int) ([]task.Recurrence, error)
	// InsertRecurrence writes a new row.
	InsertRecurrence(ctx context.Context, q sqlx.ExtContext, r task.Recurrence) error
	// PendingTicks reads the ids of the pending tasks of an owner's recurrences, without locking them.
	PendingTicks(ctx context.Context, q sqlx.QueryerContext, owner string, recurrences []task.ID) ([]task.ID, error)
	// LockFree locks those of the tasks' rows that no other transaction has locked.
	LockFree(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, time.Time, error)
	// ShareRecurrence keeps an owner's recurrence from being halted until the transaction ends; a worker that runs its task does
	// not keep it from being shared.
	ShareRecurrence(ctx context.Context, q sqlx.ExtContext, owner, name string) error
	// UnshareRecurrences waits for those who share the owner's recurrences, and keeps others from it.
	UnshareRecurrences(ctx context.Context, q sqlx.ExtContext, owner string, names []string) error
	// StopOver marks an owner's recurrences that are over as stopped.
	StopOver(ctx context.Context, q sqlx.ExtContext, owner string, now time.Time) error
	// DefineRecurrence writes all of a row that is as before.
	DefineRecurrence(ctx context.Context, q sqlx.ExtContext, before, after task.Recurrence) error
}

// Recur makes tasks by a timetable, from now on: spec, made by Kind.Recurring, says whose and what they are. The recurrence is
// unique by its owner and name, and is returned as it stands:
//
//   - A new one, or one that was stopped, begins. One that is over begins anew if its definition differs.
//   - One with the same definition stays as it is, also once it is over, so that a service may call Recur at each start.
//   - A changed definition replaces the pending task by that of the next tick from now on. If the tick of the pending task has
//     passed, as while the task waits for its jitter or was put off, the tick keeps its time and gets a task of the new definition.
//     A task whose time has come stays: it may be running.
//   - One that has a name which the kind had before (task.Was) keeps that name, and so do its next tasks.
//   - A paused one takes the definition and stays paused.
//   - One with a greater Policy.Revision stays as it is, in any state: a process of an older version does not bring its definition back.
//
// While a worker runs a task of the recurrence, another definition waits for the worker, as a change of a running task does: it
// answers task.ErrRunning after the session's lock wait, and may be tried again later. The same definition does not wait.
//
// Input outside the limits, also a timetable that has no tick to come, answers a *task.FieldError, and nothing was changed. The
// times of a timetable can be seen beforehand: recur.Timetable.Ticks.
func (t *Tx) Recur(ctx context.Context, name string, when recur.Timetable, spec task.Spec, policy recur.Policy) (task.Recurrence, error) {
	spec, err := t.before.one(ctx, spec)
	if err != nil {
		return task.Recurrence{}, err
	}
	ctx, err = t.usable(ctx)
	if err != nil {
		return task.Recurrence{}, err
	}
	if err := t.holdQueues(ctx, []task.Spec{spec}); err != nil {
		return task.Recurrence{}, err
	}
	now, err := t.nowUnlessBlocked(ctx, spec.Owner())
	if err != nil {
		return task.Recurrence{}, err
	}
	wanted, err := spec.Recurrence(name, when, policy, now)
	if err != nil {
		return task.Recurrence{}, fmt.Errorf("recur %s: %w", name, err)
	}
	stands, found, err := t.rows.Recurrence(ctx, t.db, wanted.Owner, name)
	if err != nil {
		return task.Recurrence{}, t.ledger.Fail(err)
	}
	if found && slices.Contains(spec.Kind().Was, stands.Kind) { // a tick under another name would have another key, and be made once more
		spec = spec.Under(stands.Kind)
		if wanted, err = spec.Recurrence(name, when, policy, now); err != nil {
			return task.Recurrence{}, fmt.Errorf("recur %s: %w", name, err)
		}
	}
	if found && (stands.State == task.RecurrenceOver || !policy.End.IsZero()) && samePayload(spec, stands.Payload, wanted.Payload) {
		wanted.Payload = stands.Payload // another key has encrypted it: the recurrence does not begin anew for that, which may be too late
	}
	if found && (transition.Supersedes(stands, wanted) || transition.SameDefinition(stands, wanted) && stands.State != task.RecurrenceStopped) {
		if err := t.checkScope(stands); err != nil {
			return task.Recurrence{}, err
		}
		return stands, nil
	}
	next, tick := transition.BeginRecurrence(wanted, now)
	if tick.ID.IsZero() {
		return task.Recurrence{}, &task.FieldError{Field: "timetable", Problem: "must have a tick to come"}
	}
	if !found {
		return t.begin(ctx, next, tick, func(r task.Recurrence) error { return t.rows.InsertRecurrence(ctx, t.db, r) })
	}
	return t.redefine(ctx, stands, wanted)
}

// samePayload reports whether the kind's codec decodes the same of both.
func samePayload(spec task.Spec, before, after json.RawMessage) bool {
	decode := func(payload json.RawMessage) ([]byte, error) {
		return spec.Kind().Payload(task.Task{Kind: spec.Kind().Name, Owner: spec.Owner(), Payload: payload})
	}
	was, err := decode(before)
	is, err2 := decode(after)
	return err == nil && err2 == nil && bytes.Equal(was, is)
}

// begin makes the task of a recurrence's next tick, and writes the recurrence.
func (t *Tx) begin(ctx context.Context, next task.Recurrence, tick task.Task, write func(task.Recurrence) error) (task.Recurrence, error) {
	next, err := t.insertTick(ctx, next, tick)
	if err == nil {
		err = write(next)
	}
	if err != nil {
		return task.Recurrence{}, t.ledger.Fail(fmt.Errorf("recur %s of owner %s: %w", next.Name, next.Owner, err))
	}
	t.note(next, protocol.EventDefined, next.Timetable.String())
	return next, nil
}

// insertTick writes the task of a tick, and a line of the history if there is none. If the tick has a pending row already, that
// is the newest task.
func (t *Tx) insertTick(ctx context.Context, r task.Recurrence, tick task.Task) (task.Recurrence, error) {
	if tick.ID.IsZero() {
		t.note(r, protocol.EventOver, "no further tick")
		return r, nil
	}
	stands, err := t.rows.Insert(ctx, t.db, []task.Task{tick})
	if err != nil {
		return r, err
	}
	if stands[0].State != task.Pending {
		next, later := transition.NewestTaken(r, t.ledger.Moment())
		return t.insertTick(ctx, next, later)
	}
	t.ledger.Inserted(stands, recurrence.Tick{Kind: r.Kind, Outcome: recurrence.OutcomeMade, N: 1})
	r.Newest = stands[0].ID
	return r, nil
}

func (t *Tx) note(r task.Recurrence, event, detail string) {
	t.ledger.NoteRecurrence(protocol.Event{At: t.ledger.Moment(), Task: r.ID, Name: event, Detail: detail})
}

// redefine gives a recurrence another definition. It does not lock a task whose time has come, which may be running for long.
func (t *Tx) redefine(ctx context.Context, stands, wanted task.Recurrence) (task.Recurrence, error) {
	stays, err := t.newestStays(ctx, stands)
	if err != nil {
		return task.Recurrence{}, t.ledger.Fail(err)
	}
	take := takeNewest
	if stays {
		take = takeNone
	}
	locked, taken, err := t.lockRecurrences(ctx, "recur", []task.Recurrence{stands}, take)
	if err != nil {
		return task.Recurrence{}, err
	}
	r := locked[0]
	if err := t.checkScope(r); err != nil { // by the locked row: another transaction may have redefined it since
		return task.Recurrence{}, err
	}
	if transition.Supersedes(r, wanted) { // likewise, and the task that was taken back may be the newer definition's
		return task.Recurrence{}, t.ledger.Fail(fmt.Errorf("recur %s of owner %s: %w", r.Name, r.Owner, errMovedOn))
	}
	next := transition.Redefine(r, wanted, t.ledger.Moment())
	define := func(next task.Recurrence) error { return t.rows.DefineRecurrence(ctx, t.db, r, next) }
	if stays || r.State == task.RecurrencePaused {
		if err := define(next); err != nil {
			return task.Recurrence{}, t.ledger.Fail(err)
		}
		t.note(next, protocol.EventDefined, next.Timetable.String())
		return next, nil
	}
	taken = append(taken, task.Task{}) // none
	next, tick := transition.Remake(next, taken[0], t.ledger.Moment())
	return t.begin(ctx, next, tick, define)
}

// checkScope refuses a recurrence whose kind the caller does not see.
func (t *Tx) checkScope(r task.Recurrence) error {
	if t.inScope == nil || t.inScope(r.Kind) {
		return nil
	}
	return t.ledger.Fail(fmt.Errorf("recur %s of owner %s: %w", r.Name, r.Owner, task.ErrNameTaken))
}

// newestStays reports whether the newest task of an active recurrence is pending and its time has come. The row says so, which is
// not locked: the recurrence has the due time with which the task was made, and the task may have been moved since.
func (t *Tx) newestStays(ctx context.Context, r task.Recurrence) (bool, error) {
	if r.State != task.RecurrenceActive || r.Newest.IsZero() {
		return false, nil
	}
	rows, err := t.rows.Get(ctx, t.db, []task.ID{r.Newest})
	if err != nil || len(rows) == 0 {
		return false, err
	}
	return rows[0].State == task.Pending && !rows[0].DueAt.After(t.ledger.Moment()), nil
}

// takeBack says which tasks a change of recurrences withdraws, if they are pending.
type takeBack int

const (
	takeNone   takeBack = iota
	takeNewest          // the newest task of each
	takeAll             // also those whose ticks a later one has overlapped, and those of RunRecurrence
)

// lockRecurrences locks recurrences of one owner that were read without a lock, in the order of package recurrence. Before, it
// locks the tasks that are to be taken back. It cancels those that are pending, so that their ticks may be made once more, and
// returns them as they were. It answers a retryable error if one of the recurrences has made another task meanwhile that can't be
// locked at once.
func (t *Tx) lockRecurrences(ctx context.Context, verb string, read []task.Recurrence, take takeBack) (locked []task.Recurrence, taken []task.Task, err error) {
	ids := make([]task.ID, len(read))
	var toTake []task.ID
	for i, r := range read {
		ids[i] = r.ID
		if !r.Newest.IsZero() && take != takeNone {
			toTake = append(toTake, r.Newest)
		}
	}
	if take == takeAll {
		pending, err := t.rows.PendingTicks(ctx, t.db, read[0].Owner, ids)
		if err != nil {
			return nil, nil, t.ledger.Fail(fmt.Errorf("%s: %w", verb, err))
		}
		toTake = append(toTake, pending...)
	}
	tasks, err := t.lock(ctx, verb, toTake)
	if err != nil {
		return nil, nil, err
	}
	locked, err = t.rows.LockRecurrences(ctx, t.db, ids)
	if err != nil {
		return nil, nil, t.ledger.Fail(fmt.Errorf("%s: %w", verb, ledger.AsRunning(err)))
	}
	if len(locked) < len(ids) {
		return nil, nil, t.ledger.Fail(fmt.Errorf("%s: %w", verb, errMovedOn)) // purged meanwhile
	}
	if take == takeAll {
		made, err := t.lockMade(ctx, locked, tasks)
		if err != nil {
			return nil, nil, t.ledger.Fail(fmt.Errorf("%s: %w", verb, err))
		}
		tasks = append(tasks, made...)
	}
	for _, r := range locked {
		was := read[slices.Index(ids, r.ID)]
		if r.Newest == was.Newest && r.State == was.State {
			continue
		}
		if r.State <= task.RecurrencePaused && slices.ContainsFunc(tasks, func(row task.Task) bool { return row.ID == r.Newest }) {
			continue // it is among the pending tasks
		}
		newest, err := t.lockMovedOn(ctx, was, r, take)
		if err != nil {
			return nil, nil, t.ledger.Fail(fmt.Errorf("%s %s of owner %s: %w", verb, r.Name, r.Owner, err))
		}
		tasks = append(tasks, newest...)
	}
	return t.withdraw(ctx, verb, locked, tasks, take)
}

// lockMade locks the pending tasks of locked recurrences that were made since the tasks were listed: by a worker, as where
// overlaps are allowed, or by RunRecurrence.
func (t *Tx) lockMade(ctx context.Context, locked []task.Recurrence, tasks []task.Task) ([]task.Task, error) {
	ids, names := make([]task.ID, len(locked)), make([]string, len(locked))
	for i, r := range locked {
		ids[i], names[i] = r.ID, r.Name
	}
	owner := locked[0].Owner
	if err := t.rows.UnshareRecurrences(ctx, t.db, owner, names); err != nil {
		return nil, ledger.AsRunning(err)
	}
	pending, err := t.rows.PendingTicks(ctx, t.db, owner, ids)
	if err != nil {
		return nil, err
	}
	known := protocol.ByID(tasks)
	return t.lockNow(ctx, slices.DeleteFunc(pending, func(id task.ID) bool { _, found := known[id]; return found }))
}

// lockNow locks tasks without waiting, since whoever holds one may wait for its recurrence. It answers errMovedOn where the whole
// transaction is to be tried again.
func (t *Tx) lockNow(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	locked, _, err := t.rows.LockFree(ctx, t.db, ids)
	if err == nil && len(locked) < len(ids) {
		err = errMovedOn
	}
	return locked, err
}

// lockMovedOn locks the task that a locked recurrence has made since it was read, so that one caller among many comes through at
// its first try. It does not wait, since whoever holds the task may wait for the recurrence. It answers errMovedOn where the
// whole transaction is to be tried again.
func (t *Tx) lockMovedOn(ctx context.Context, was, r task.Recurrence, take takeBack) ([]task.Task, error) {
	switch {
	case take == takeNone, max(was.State, r.State) > task.RecurrencePaused:
		return nil, errMovedOn
	case r.Newest.IsZero():
		return nil, nil
	case !r.DueAt.After(t.ledger.Moment()): // by now it may be running
		return nil, errMovedOn
	}
	return t.lockNow(ctx, []task.ID{r.Newest})
}

// withdraw cancels those of the tasks that are pending and to be taken back, but for the handler's own and for tasks of kinds that
// the caller may not see, which a definition before this one has made.
func (t *Tx) withdraw(
	ctx context.Context, verb string, locked []task.Recurrence, tasks []task.Task, take takeBack,
) (_ []task.Recurrence, before []task.Task, _ error) {
	var changes []transition.Change
	for _, row := range tasks {
		i := slices.IndexFunc(locked, func(r task.Recurrence) bool { return r.Newest == row.ID })
		isTaken := (i >= 0 || take == takeAll) && row.State == task.Pending
		if !isTaken || slices.Contains(t.own, row.ID) || t.inScope != nil && !t.inScope(row.Kind) {
			continue
		}
		changes = append(changes, transition.Change{Before: row, After: transition.Withdraw(row, t.ledger.Moment())})
		if i >= 0 {
			locked[i] = transition.NewestWithdrawn(locked[i], t.ledger.Moment())
		}
	}
	if err := t.ledger.Write(ctx, changes); err != nil {
		return nil, nil, fmt.Errorf("%s %d tasks: %w", verb, len(changes), err)
	}
	return locked, transition.BeforeOf(changes), nil
}
