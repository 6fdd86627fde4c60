package task

import (
	"fmt"
	"time"
)

// When says when a task is due: at a moment, or so long after the database's now.
type When struct {
	at       time.Time
	in       time.Duration
	relative bool
}

// At is a fixed moment; one in the past means now.
func At(t time.Time) When { return When{at: t} }

// In is so long after the moment of the transaction, on the database's clock; d < 0 means now.
func In(d time.Duration) When { return When{in: d, relative: true} }

// Due resolves the moment, rounded up to the millisecond and not before now.
func (w When) Due(now time.Time) (time.Time, error) {
	if w.relative {
		return clampDue(now.Add(w.in), now)
	}
	if w.at.IsZero() {
		return time.Time{}, &FieldError{"due", "must be set"}
	}
	return clampDue(w.at, now)
}

// KeyMode says what scheduling does when the spec's key is taken.
type KeyMode int

// The key modes; Unkeyed has no key.
const (
	Unkeyed KeyMode = iota
	KeepPending
	MovePending
	OnceOnly
)

// Spec is a task to be scheduled. Make it with Kind.New.
type Spec struct {
	row  Task // what the row will have from its first moment; Resolve adds the rest
	kind KindInfo
	when When
	key  string
	mode KeyMode
	keys int // options that gave one

	labels []LabelRow // without the task's id
	err    error

	recurring bool // made by Kind.Recurring, for Recur
}

// Option adds to a Spec.
type Option func(*Spec)

// Subject says what the task is about (the pet, the order): at most 63 bytes, carried through the index and shown in
// the owner's list.
func Subject(s string) Option { return func(spec *Spec) { spec.row.Subject = s } }

// Key makes the task unique by (owner, kind, key) while it is pending: scheduling again returns the pending task as it
// stands. The key is free again once the task ends, which is after its handler has returned: a handler that gives a follow-up
// the key of its own task is answered worker.ErrOwnKey.
func Key(k string) Option { return keyed(k, KeepPending) }

// KeyMove is Key, but scheduling again moves the pending task to the new time. Only its times change: it keeps the id, payload,
// subject, queue, attempts and maximum of attempts that it was first scheduled with, whatever the later spec says. To replace
// those, cancel the task and schedule another in one transaction.
func KeyMove(k string) Option { return keyed(k, MovePending) }

// Once makes the task unique by (owner, kind, key) for the row's whole life, until its retention ends: scheduling again
// returns the task, whatever became of it.
func Once(k string) Option { return keyed(k, OnceOnly) }

func keyed(k string, mode KeyMode) Option {
	return func(spec *Spec) {
		spec.keys++
		spec.key, spec.mode = k, mode
	}
}

// WithID sets the task's id, one chosen by the caller, as when a call is repeated after an unknown commit.
func WithID(id ID) Option { return func(spec *Spec) { spec.row.ID = id } }

// Traced returns the spec with the W3C trace context of the call that schedules it, for the row to keep.
func (s Spec) Traced(traceparent string) Spec {
	s.row.Traceparent = traceparent
	return s
}

// Kind returns what the task's kind says.
func (s Spec) Kind() KindInfo { return s.kind }

// ID returns the id that the task will have.
func (s Spec) ID() ID { return s.row.ID }

// At returns the fixed moment at which the task is due, rounded up to the millisecond; false if it is so long after that of
// scheduling.
func (s Spec) At() (time.Time, bool) { return ceilMs(s.when.at), !s.when.relative }

// In returns how long after the moment of scheduling the task is due; false if the moment is fixed.
func (s Spec) In() (time.Duration, bool) { return s.when.in, s.when.relative }

// Mode returns what to do when the key is taken.
func (s Spec) Mode() KeyMode { return s.mode }

// Resolve makes the row to insert at this moment of the database's clock, in the state pending at version 1. The shard
// is left to the layout. It returns a FieldError for input outside the limits.
func (s Spec) Resolve(now time.Time) (Task, error) {
	if err := s.check(); err != nil {
		return Task{}, err
	}
	due, err := s.when.Due(now)
	if err != nil {
		return Task{}, err
	}
	t := s.row
	t.Kind, t.Queue, t.MaxAttempts = s.kind.Name, s.kind.Queue, s.kind.MaxAttempts
	t.DueAt, t.RunAt, t.CreatedAt, t.UpdatedAt = due, due, now, now
	t.State, t.Version, t.DedupKey = Pending, 1, s.dedupKey()
	return t, nil
}

func (s Spec) check() error {
	if s.err != nil {
		return &FieldError{"payload", "must be encodable as JSON: " + s.err.Error()}
	}
	if s.kind.Name == "" { // else NewKind has checked it
		return checkKind(s.kind.Name)
	}
	if s.row.ID.IsZero() {
		return &FieldError{"task_id", "must not be zero"}
	}
	if err := CheckOwner(s.row.Owner); err != nil {
		return err
	}
	if err := checkText("subject", s.row.Subject, 0, MaxSubject); err != nil {
		return err
	}
	if s.keys > 1 {
		return &FieldError{"key", "must be given once: by Key, KeyMove or Once"}
	}
	if s.mode != Unkeyed {
		if err := checkText("key", s.key, 1, MaxKey); err != nil {
			return err
		}
	}
	if err := s.checkLabels(); err != nil {
		return err
	}
	if len(s.row.Payload) > MaxPayload {
		return &FieldError{"payload", fmt.Sprintf("must be at most %d bytes of JSON, and has %d", MaxPayload, len(s.row.Payload))}
	}
	return nil
}

// dedupKey is the key as the row holds it: its first letter says how long it holds, so that the end of the task can
// free it in SQL.
func (s Spec) dedupKey() string {
	switch s.mode {
	case Unkeyed:
		return ""
	case OnceOnly:
		return onceKey + s.key
	default:
		return pendingKey + s.key
	}
}

const (
	pendingKey = "k" // cleared when the task is done or cancelled
	onceKey    = "o" // stays for the row's life
	deadKey    = "d" // was a pendingKey; with the task's id between, so that it stands in nobody's way until a retry
)
