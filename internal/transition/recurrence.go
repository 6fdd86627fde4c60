package transition

import (
	"bytes"
	"cmp"
	"strconv"
	"time"

	"github.com/duetime/duetime/internal/rowform"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/task"
)

// MaxNote is how many bytes the note of a pause has at most.
const MaxNote = 255

// SameDefinition reports whether both have the same timetable, policy and tasks.
func SameDefinition(r task.Recurrence, other task.Recurrence) bool {
	return r.Timetable == other.Timetable && r.Policy == other.Policy && r.Kind == other.Kind && r.Queue == other.Queue &&
		r.Subject == other.Subject && r.MaxAttempts == other.MaxAttempts && bytes.Equal(r.Payload, other.Payload)
}

// Supersedes reports whether the other definition is older, by its number.
func Supersedes(r task.Recurrence, other task.Recurrence) bool {
	return r.Policy.Revision > other.Policy.Revision
}

// Redefine is the transition to the timetable, policy and tasks of another definition of the same owner and name. The newest
// task stays. Another timetable holds from now on: nothing catches up with its ticks before.
func Redefine(r task.Recurrence, to task.Recurrence, now time.Time) task.Recurrence {
	if r.Timetable != to.Timetable {
		r.Passed = now
	}
	r.Timetable, r.Policy = to.Timetable, to.Policy
	r.Kind, r.Queue, r.Subject, r.MaxAttempts, r.Payload = to.Kind, to.Queue, to.Subject, to.MaxAttempts, to.Payload
	r.UpdatedAt = now
	return r
}

// BeginRecurrence is the transition to active. It makes the task of the first tick from now on; a zero id says that there is none.
// Nothing catches up with ticks before now, but after a pause a tick whose jitter is not over yet has not passed.
func BeginRecurrence(r task.Recurrence, now time.Time) (task.Recurrence, task.Task) {
	var waits task.Task
	switch r.State {
	case task.RecurrencePaused:
		waits, _ = taskOf(r, r.Timetable.Next(r.Passed), now) // an error is plan's to meet
	case task.RecurrenceStopped, task.RecurrenceOver:
		r.Made = 0 // Policy.Count counts anew
	}
	r.State, r.Note = task.RecurrenceActive, ""
	r.Passed = rowform.Latest(r.Passed, now)
	if waits.DueAt.After(now) {
		return Remake(r, waits, now)
	}
	return plan(r, time.Time{}, time.Time{}, now)
}

// Remake is Begin for a recurrence whose newest task was taken back. If its tick has passed, since the task waited for its jitter or
// was put off, the tick gets another task, due when that one was.
func Remake(r task.Recurrence, taken task.Task, now time.Time) (task.Recurrence, task.Task) {
	_, tick, ok := taken.Tick()
	p := r.Policy
	if !ok || tick.After(now) || r.State != task.RecurrenceActive || tick.Before(p.Start) || !p.End.IsZero() && !tick.Before(p.End) ||
		p.Count > 0 && r.Made >= int64(p.Count) {
		return BeginRecurrence(r, now)
	}
	r.Passed, r.UpdatedAt = rowform.Latest(r.Passed, tick), now
	return withNewest(r, newTask(r, taken.DedupKey, taken.DueAt, now))
}

// withNewest notes the task that was made.
func withNewest(r task.Recurrence, t task.Task) (task.Recurrence, task.Task) {
	r.Newest, r.DueAt, r.BeganAt = t.ID, t.DueAt, time.Time{}
	r.Made++
	return r, t
}

// NewestEnded is the transition after the newest task has ended, or has vanished. It makes the task of the next tick; a zero id says
// that there is none. Began is when the task's first attempt began, zero if it had none.
func NewestEnded(r task.Recurrence, began, now time.Time) (task.Recurrence, task.Task) {
	r.Newest, r.DueAt, r.BeganAt = task.ID{}, time.Time{}, time.Time{}
	if r.State != task.RecurrenceActive {
		r.UpdatedAt = now
		return r, task.Task{}
	}
	if began.IsZero() {
		began = now
	}
	return plan(r, began, now, now)
}

// NewestTaken is the transition where the tick of the newest task has a task that has ended: it was cancelled, and another definition
// or the end of a pause has come to the same tick. It makes the task of the next one.
func NewestTaken(r task.Recurrence, now time.Time) (task.Recurrence, task.Task) {
	r.Made--
	return NewestEnded(r, time.Time{}, now)
}

// NewestAttempted is the transition after an attempt that has not ended the newest task. Where the policy allows an overlap, it makes
// the task of the next tick.
func NewestAttempted(r task.Recurrence, now time.Time) (task.Recurrence, task.Task) {
	if r.State == task.RecurrenceActive && r.Policy.Overlap == recur.OverlapAllow {
		return plan(r, now, time.Time{}, now)
	}
	if r.BeganAt.IsZero() {
		r.BeganAt = now
	}
	r.UpdatedAt = now
	return r, task.Task{}
}

// PauseRecurrence is the transition to paused. Its pending tasks are to be taken back.
func PauseRecurrence(r task.Recurrence, note string, now time.Time) task.Recurrence {
	r.State, r.Note, r.UpdatedAt = task.RecurrencePaused, note, now
	if r.Newest.IsZero() {
		return r // Withdraw has said from where it goes on
	}
	return withdrawn(r, now)
}

// StopRecurrence is the transition to stopped. Its pending tasks are to be taken back.
func StopRecurrence(r task.Recurrence, now time.Time) task.Recurrence {
	r.State, r.Note, r.UpdatedAt = task.RecurrenceStopped, "", now
	return withdrawn(r, now)
}

// NewestWithdrawn is the transition after the newest task was taken back before its time: its tick has not been made,
// see Remake. Another transition follows, with which the row is written: it tells the time.
func NewestWithdrawn(r task.Recurrence, now time.Time) task.Recurrence {
	before := r.Passed.Add(-time.Millisecond)
	r.Made--
	r = withdrawn(r, now)
	if before.Before(now) {
		r.Passed = before // the tick has passed, and its task was put off
	}
	return r
}

func withdrawn(r task.Recurrence, now time.Time) task.Recurrence {
	r.Newest, r.DueAt, r.BeganAt = task.ID{}, time.Time{}, time.Time{}
	r.Passed = now
	return r
}

// plan makes the next task, as the policy says. A definition that this program can't read, as of a later version, pauses the
// recurrence: it must not end without a word.
func plan(r task.Recurrence, began, ended, now time.Time) (task.Recurrence, task.Task) {
	if err := cmp.Or(r.Timetable.Check(), r.Policy.Check()); err != nil {
		r.State, r.Note, r.UpdatedAt = task.RecurrencePaused, Cut("its definition can't be read: "+err.Error(), MaxNote), now
		return r, task.Task{}
	}
	plan := r.Policy.Plan(r.Timetable, recur.Progress{Now: now, Last: r.Passed, Made: int(r.Made), Began: began, Ended: ended})
	r.Passed, r.UpdatedAt = rowform.Latest(r.Passed, plan.Last), now
	r.Skipped += int64(plan.Skipped)
	t, err := taskOf(r, plan.Tick, now)
	if plan.Over || err != nil { // beyond the moments that a row can hold
		r.State = task.RecurrenceOver
		return r, task.Task{}
	}
	if t.ID.IsZero() {
		return r, task.Task{}
	}
	if !plan.Tick.After(now) {
		r.CaughtUp++
	}
	return withNewest(r, t)
}

// taskOf makes the task of a tick; the zero Task for the zero tick.
func taskOf(r task.Recurrence, tick, now time.Time) (task.Task, error) {
	if tick.IsZero() {
		return task.Task{}, nil
	}
	due, err := clampDue(tick.Add(r.Policy.Delay(r.ID.String(), tick)), now)
	return newTask(r, tickKey(r.ID, tick), due, now), err
}

// ExtraTask makes a task beside those of the timetable, due now: its tick is now.
func ExtraTask(r task.Recurrence, now time.Time) task.Task {
	return newTask(r, tickKey(r.ID, now), now, now)
}

func newTask(r task.Recurrence, key string, due, now time.Time) task.Task {
	return task.Task{
		ID: task.NewID(), Kind: r.Kind, Owner: r.Owner, Subject: r.Subject, Queue: r.Queue, MaxAttempts: r.MaxAttempts, Payload: r.Payload,
		State: task.Pending, Version: 1, DueAt: due, RunAt: due, CreatedAt: now, UpdatedAt: now, DedupKey: key,
	}
}

func tickKey(recurrence task.ID, tick time.Time) string {
	return rowform.RecurrenceKey + rowform.IDText.EncodeToString(recurrence[:]) + ":" + strconv.FormatInt(tick.UnixMilli(), 10)
}

// Withdraw is the transition to cancelled of a tick's task whose tick may be made once more: it leaves its key.
func Withdraw(t task.Task, now time.Time) task.Task {
	t.DedupKey = ""
	return end(t, task.Cancelled, now)
}
