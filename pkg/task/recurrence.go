package task

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/duetime/duetime/pkg/recur"
)

// MaxRecurrenceName is how many bytes the name of a recurrence has at most.
const MaxRecurrenceName = 64

// MaxNote is how many bytes the note of a pause has at most.
const MaxNote = 255

// ErrNoRecurrence says that the owner has no recurrence of this name, or that it was stopped or is over.
var ErrNoRecurrence = errors.New("recurrence not found")

// ErrNameTaken says that the owner has a recurrence of this name, in any state, whose kind is outside of the caller's scope.
var ErrNameTaken = errors.New("a recurrence of another kind has this name")

// RecurrenceState is the state of a recurrence.
type RecurrenceState int8

// The states of a recurrence.
const (
	RecurrenceActive  RecurrenceState = iota // it has a pending task, or one that has just ended
	RecurrencePaused                         // until somebody resumes it; it makes no tasks
	RecurrenceStopped                        // by a service or an operator; recurring under its name begins it anew
	RecurrenceOver                           // its timetable, its End or its Count leave no further tick
)

var recurrenceStates = []string{"active", "paused", "stopped", "over"}

// String returns the state's name.
func (s RecurrenceState) String() string {
	if s < 0 || int(s) >= len(recurrenceStates) {
		return fmt.Sprintf("state %d", int8(s))
	}
	return recurrenceStates[s]
}

// ParseRecurrenceState reads what String writes.
func ParseRecurrenceState(text string) (RecurrenceState, error) {
	for i, name := range recurrenceStates {
		if text == name {
			return RecurrenceState(i), nil
		}
	}
	return 0, &FieldError{"state", "must be " + strings.Join(recurrenceStates, ", ")}
}

// MarshalText returns the state's name, so that JSON carries names.
func (s RecurrenceState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Recurrence is what makes tasks by a timetable; a row of duetime_recurrences. It is unique by its owner and name. It has at
// most one pending task, of its next tick, unless Policy.Overlap allows more. Times are of the database's clock, in UTC, exact
// to the millisecond.
type Recurrence struct {
	ID    ID
	Owner string
	Name  string
	State RecurrenceState
	Note  string // why it is paused

	Timetable recur.Timetable
	Policy    recur.Policy

	// What its tasks are made of.
	Kind        string
	Queue       string
	Subject     string
	MaxAttempts int
	Payload     []byte // JSON

	Passed  time.Time // ticks up to this moment were made or skipped
	Newest  ID        // the task of the latest tick that was made; zero for none
	DueAt   time.Time // of that task, when it was made; zero for none
	BeganAt time.Time // the first attempt of that task, if it has not ended it; zero otherwise

	Made     int64 // tasks, without those that were taken back before their time
	Skipped  int64 // ticks
	CaughtUp int64 // ticks that had passed when their tasks were made

	CreatedAt time.Time
	UpdatedAt time.Time
}

// Recurring prepares what the ticks of a recurrence do. The timetable gives the times, and each task its id and key: Subject is
// the only option that it takes. Errors of the input come out when it is passed to Recur.
func (k Kind[P]) Recurring(owner string, payload P, opts ...Option) Spec {
	s := k.New(owner, payload, When{}, opts...)
	s.recurring = true
	return s
}

// Recurrence makes the recurrence of this name, without a task, at this moment of the database's clock. It returns a FieldError
// for input outside the limits.
func (s Spec) Recurrence(name string, when recur.Timetable, policy recur.Policy, now time.Time) (Recurrence, error) {
	if err := s.checkRecurrence(name, when, policy); err != nil {
		return Recurrence{}, err
	}
	policy.Start, policy.End = wholeMs(policy.Start), wholeMs(policy.End)
	return Recurrence{
		ID: s.row.ID, Owner: s.row.Owner, Name: name, Timetable: when, Policy: policy,
		Kind: s.kind.Name, Queue: s.kind.Queue, Subject: s.row.Subject, MaxAttempts: s.kind.MaxAttempts, Payload: s.row.Payload,
		Passed: now, CreatedAt: now, UpdatedAt: now,
	}, nil
}

func (s Spec) checkRecurrence(name string, when recur.Timetable, policy recur.Policy) error {
	if err := checkText("name", name, 1, MaxRecurrenceName); err != nil {
		return err
	}
	if err := asFieldError(when.Check()); err != nil {
		return err
	}
	if err := asFieldError(policy.Check()); err != nil {
		return err
	}
	if !s.recurring || s.when != (When{}) {
		return &FieldError{"spec", "must be made by Kind.Recurring: the timetable says when its tasks are due"}
	}
	if s.mode != Unkeyed {
		return &FieldError{"key", "must not be set: each tick has its own"}
	}
	if len(s.labels) > 0 {
		return &FieldError{"labels", "must not be set: tasks of a recurrence have none"}
	}
	return s.check()
}

// asFieldError gives callers one type of error to look for.
func asFieldError(err error) error {
	var e *recur.FieldError
	if errors.As(err, &e) {
		return &FieldError{e.Field, e.Problem}
	}
	return err
}

func wholeMs(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return ceilMs(t)
}

// Matches reports whether both have the same timetable, policy and tasks.
func (r Recurrence) Matches(other Recurrence) bool {
	return r.Timetable == other.Timetable && r.Policy == other.Policy && r.Kind == other.Kind && r.Queue == other.Queue &&
		r.Subject == other.Subject && r.MaxAttempts == other.MaxAttempts && bytes.Equal(r.Payload, other.Payload)
}

// Supersedes reports whether the other definition is older, by its number.
func (r Recurrence) Supersedes(other Recurrence) bool {
	return r.Policy.Revision > other.Policy.Revision
}

// Redefine is the transition to the timetable, policy and tasks of another definition of the same owner and name. The newest
// task stays. Another timetable holds from now on: nothing catches up with its ticks before.
func (r Recurrence) Redefine(to Recurrence, now time.Time) Recurrence {
	if r.Timetable != to.Timetable {
		r.Passed = now
	}
	r.Timetable, r.Policy = to.Timetable, to.Policy
	r.Kind, r.Queue, r.Subject, r.MaxAttempts, r.Payload = to.Kind, to.Queue, to.Subject, to.MaxAttempts, to.Payload
	r.UpdatedAt = now
	return r
}

// Begin is the transition to active. It makes the task of the first tick from now on; a zero id says that there is none.
// Nothing catches up with ticks before now, but after a pause a tick whose jitter is not over yet has not passed.
func (r Recurrence) Begin(now time.Time) (Recurrence, Task) {
	var waits Task
	switch r.State {
	case RecurrencePaused:
		waits, _ = r.taskOf(r.Timetable.Next(r.Passed), now) // an error is plan's to meet
	case RecurrenceStopped, RecurrenceOver:
		r.Made = 0 // Policy.Count counts anew
	}
	r.State, r.Note = RecurrenceActive, ""
	r.Passed = latest(r.Passed, now)
	if waits.DueAt.After(now) {
		return r.Remake(waits, now)
	}
	return r.plan(time.Time{}, time.Time{}, now)
}

// Remake is Begin for a recurrence whose newest task was taken back. If its tick has passed, since the task waited for its jitter or
// was put off, the tick gets another task, due when that one was.
func (r Recurrence) Remake(taken Task, now time.Time) (Recurrence, Task) {
	_, tick, ok := taken.Tick()
	p := r.Policy
	if !ok || tick.After(now) || r.State != RecurrenceActive || tick.Before(p.Start) || !p.End.IsZero() && !tick.Before(p.End) ||
		p.Count > 0 && r.Made >= int64(p.Count) {
		return r.Begin(now)
	}
	r.Passed, r.UpdatedAt = latest(r.Passed, tick), now
	return r.withNewest(r.task(taken.DedupKey, taken.DueAt, now))
}

// withNewest notes the task that was made.
func (r Recurrence) withNewest(t Task) (Recurrence, Task) {
	r.Newest, r.DueAt, r.BeganAt = t.ID, t.DueAt, time.Time{}
	r.Made++
	return r, t
}

// Ended is the transition after the newest task has ended, or has vanished. It makes the task of the next tick; a zero id says
// that there is none. Began is when the task's first attempt began, zero if it had none.
func (r Recurrence) Ended(began, now time.Time) (Recurrence, Task) {
	r.Newest, r.DueAt, r.BeganAt = ID{}, time.Time{}, time.Time{}
	if r.State != RecurrenceActive {
		r.UpdatedAt = now
		return r, Task{}
	}
	if began.IsZero() {
		began = now
	}
	return r.plan(began, now, now)
}

// Taken is the transition where the tick of the newest task has a task that has ended: it was cancelled, and another definition
// or the end of a pause has come to the same tick. It makes the task of the next one.
func (r Recurrence) Taken(now time.Time) (Recurrence, Task) {
	r.Made--
	return r.Ended(time.Time{}, now)
}

// Attempted is the transition after an attempt that has not ended the newest task. Where the policy allows an overlap, it makes
// the task of the next tick.
func (r Recurrence) Attempted(now time.Time) (Recurrence, Task) {
	if r.State == RecurrenceActive && r.Policy.Overlap == recur.OverlapAllow {
		return r.plan(now, time.Time{}, now)
	}
	if r.BeganAt.IsZero() {
		r.BeganAt = now
	}
	r.UpdatedAt = now
	return r, Task{}
}

// Pause is the transition to paused. Its pending tasks are to be taken back.
func (r Recurrence) Pause(note string, now time.Time) Recurrence {
	r.State, r.Note, r.UpdatedAt = RecurrencePaused, note, now
	if r.Newest.IsZero() {
		return r // Withdraw has said from where it goes on
	}
	return r.withdrawn(now)
}

// Stop is the transition to stopped. Its pending tasks are to be taken back.
func (r Recurrence) Stop(now time.Time) Recurrence {
	r.State, r.Note, r.UpdatedAt = RecurrenceStopped, "", now
	return r.withdrawn(now)
}

// Withdraw is the transition after the newest task was taken back before its time: its tick has not been made,
// see Remake. Another transition follows, with which the row is written: it tells the time.
func (r Recurrence) Withdraw(now time.Time) Recurrence {
	before := r.Passed.Add(-time.Millisecond)
	r.Made--
	r = r.withdrawn(now)
	if before.Before(now) {
		r.Passed = before // the tick has passed, and its task was put off
	}
	return r
}

func (r Recurrence) withdrawn(now time.Time) Recurrence {
	r.Newest, r.DueAt, r.BeganAt = ID{}, time.Time{}, time.Time{}
	r.Passed = now
	return r
}

// plan makes the next task, as the policy says. A definition that this program can't read, as of a later version, pauses the
// recurrence: it must not end without a word.
func (r Recurrence) plan(began, ended, now time.Time) (Recurrence, Task) {
	if err := cmp.Or(r.Timetable.Check(), r.Policy.Check()); err != nil {
		r.State, r.Note, r.UpdatedAt = RecurrencePaused, cut("its definition can't be read: "+err.Error(), MaxNote), now
		return r, Task{}
	}
	plan := r.Policy.Plan(r.Timetable, recur.Progress{Now: now, Last: r.Passed, Made: int(r.Made), Began: began, Ended: ended})
	r.Passed, r.UpdatedAt = latest(r.Passed, plan.Last), now
	r.Skipped += int64(plan.Skipped)
	t, err := r.taskOf(plan.Tick, now)
	if plan.Over || err != nil { // beyond the moments that a row can hold
		r.State = RecurrenceOver
		return r, Task{}
	}
	if t.ID.IsZero() {
		return r, Task{}
	}
	if !plan.Tick.After(now) {
		r.CaughtUp++
	}
	return r.withNewest(t)
}

// taskOf makes the task of a tick; the zero Task for the zero tick.
func (r Recurrence) taskOf(tick, now time.Time) (Task, error) {
	if tick.IsZero() {
		return Task{}, nil
	}
	due, err := clampDue(tick.Add(r.Policy.Delay(r.ID.String(), tick)), now)
	return r.task(tickKey(r.ID, tick), due, now), err
}

// Coming returns the next n ticks after those that were made or skipped, fewer where End or Count leave fewer.
func (r Recurrence) Coming(n int) []time.Time {
	if r.Policy.Count > 0 {
		n = max(0, min(n, r.Policy.Count-int(r.Made)))
	}
	after := r.Passed
	if start := r.Policy.Start.Add(-1); !r.Policy.Start.IsZero() {
		after = latest(after, start)
	}
	ticks := r.Timetable.Ticks(after, n)
	for i, tick := range ticks {
		if end := r.Policy.End; !end.IsZero() && !tick.Before(end) {
			return ticks[:i]
		}
	}
	return ticks
}

// Extra makes a task beside those of the timetable, due now: its tick is now.
func (r Recurrence) Extra(now time.Time) Task { return r.task(tickKey(r.ID, now), now, now) }

func (r Recurrence) task(key string, due, now time.Time) Task {
	return Task{
		ID: NewID(), Kind: r.Kind, Owner: r.Owner, Subject: r.Subject, Queue: r.Queue, MaxAttempts: r.MaxAttempts, Payload: r.Payload,
		State: Pending, Version: 1, DueAt: due, RunAt: due, CreatedAt: now, UpdatedAt: now, DedupKey: key,
	}
}

// recurrenceKey is the first letter of the keys of recurrences' tasks. After it stand the recurrence's id and the tick: no tick
// gets two rows.
const recurrenceKey = "r"

var idText = base64.RawURLEncoding

func tickKey(recurrence ID, tick time.Time) string {
	return recurrenceKey + idText.EncodeToString(recurrence[:]) + ":" + strconv.FormatInt(tick.UnixMilli(), 10)
}

// Tick returns the recurrence that has made the task, and the moment of its timetable for which: a handler that must act for the
// day that was missed, not for the day on which it runs, needs it. False for a task that no recurrence has made.
func (t Task) Tick() (recurrence ID, tick time.Time, ok bool) {
	key, ok := strings.CutPrefix(t.DedupKey, recurrenceKey)
	if !ok {
		return ID{}, time.Time{}, false
	}
	id, ms, _ := strings.Cut(key, ":")
	b, err := idText.DecodeString(id)
	if err != nil || len(b) != len(recurrence) {
		return ID{}, time.Time{}, false
	}
	at, err := strconv.ParseInt(ms, 10, 64)
	return ID(b), time.UnixMilli(at).UTC(), err == nil
}

// Withdraw is the transition to cancelled of a tick's task whose tick may be made once more: it leaves its key.
func (t Task) Withdraw(now time.Time) Task {
	t.DedupKey = ""
	return t.end(Cancelled, now)
}
