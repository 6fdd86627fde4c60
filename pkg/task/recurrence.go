package task

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/rowform"
	"github.com/duetime/duetime/pkg/recur"
)

// MaxRecurrenceName is how many bytes the name of a recurrence has at most.
const maxRecurrenceName = 64

// ErrNoRecurrence says that the owner has no recurrence of this name, or that it was stopped or is over.
var ErrNoRecurrence = errors.New("recurrence not found")

// ErrNameTaken says that the name is taken: the owner has a recurrence of this name, in any state, whose kind is outside of the caller's
// scope; or there is a group of this name.
var ErrNameTaken = errors.New("name is taken")

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
	policy.Start, policy.End = rowform.WholeMs(policy.Start), rowform.WholeMs(policy.End)
	return Recurrence{
		ID: s.row.ID, Owner: s.row.Owner, Name: name, Timetable: when, Policy: policy,
		Kind: s.kind.Name, Queue: s.kind.Queue, Subject: s.row.Subject, MaxAttempts: s.kind.MaxAttempts, Payload: s.row.Payload,
		Passed: now, CreatedAt: now, UpdatedAt: now,
	}, nil
}

func (s Spec) checkRecurrence(name string, when recur.Timetable, policy recur.Policy) error {
	if err := checkText("name", name, 1, maxRecurrenceName); err != nil {
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
	if s.mode != rowform.Unkeyed {
		return &FieldError{"key", "must not be set: each tick has its own"}
	}
	if s.kind.InOrder {
		return &FieldError{"kind", "must not be InOrder: tasks of a recurrence have no order"}
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

// Coming returns the next n ticks after those that were made or skipped, fewer where End or Count leave fewer.
func (r Recurrence) Coming(n int) []time.Time {
	if r.Policy.Count > 0 {
		n = max(0, min(n, r.Policy.Count-int(r.Made)))
	}
	after := r.Passed
	if start := r.Policy.Start.Add(-1); !r.Policy.Start.IsZero() {
		after = rowform.Latest(after, start)
	}
	ticks := r.Timetable.Ticks(after, n)
	for i, tick := range ticks {
		if end := r.Policy.End; !end.IsZero() && !tick.Before(end) {
			return ticks[:i]
		}
	}
	return ticks
}

// Tick returns the recurrence that has made the task, and the moment of its timetable for which: a handler that must act for the
// day that was missed, not for the day on which it runs, needs it. False for a task that no recurrence has made.
func (t Task) Tick() (recurrence ID, tick time.Time, ok bool) {
	key, ok := strings.CutPrefix(t.DedupKey, rowform.RecurrenceKey)
	if !ok {
		return ID{}, time.Time{}, false
	}
	id, ms, _ := strings.Cut(key, ":")
	b, err := rowform.IDText.DecodeString(id)
	if err != nil || len(b) != len(recurrence) {
		return ID{}, time.Time{}, false
	}
	at, err := strconv.ParseInt(ms, 10, 64)
	return ID(b), time.UnixMilli(at).UTC(), err == nil
}
