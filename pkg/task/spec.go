package task

import (
	"fmt"
	"strconv"
	"time"

	"github.com/duetime/duetime/internal/rowform"
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

// Spec is a task to be scheduled. Make it with Kind.New.
type Spec struct {
	row    Task // what the row will have from its first moment; Resolve adds the rest
	kind   KindInfo
	when   When
	key    string
	mode   rowform.KeyMode
	keys   int           // options that gave one
	window time.Duration // of OncePerWindow
	bound  time.Duration // of MaxWait
	order  string        // of OrderKey

	ordered bool // OrderKey was given
	bounded bool // MaxWait was given
	labels  []label
	err     error

	recurring bool // made by Kind.Recurring, for Recur
}

// Option adds to a Spec.
type Option func(*Spec)

// Subject says what the task is about (the pet, the order): at most 63 bytes, carried through the index and shown in
// the owner's list.
func Subject(s string) Option { return func(spec *Spec) { spec.row.Subject = s } }

// Key makes the task unique by (owner, kind, key) while it is pending: scheduling again returns the pending task as it
// stands. The key is free again once the task ends, which is after its handler has returned: a handler that gives a follow-up
// the key of its own task is answered worker.ErrOwnKey. KeyMove and KeyReplace change its own task instead.
func Key(k string) Option { return keyed(k, rowform.KeepPending) }

// KeyMove is Key, but scheduling again moves the pending task to the new time. Only its times change: it keeps the id, payload,
// subject, queue, attempts and maximum of attempts that it was first scheduled with, whatever the later spec says. KeyReplace
// replaces most of them. A handler can move its own task so: the task stays pending, at the new time.
func KeyMove(k string) Option { return keyed(k, rowform.MovePending) }

// KeyReplace is Key, but scheduling again gives the pending task what the later spec says: payload, time, trace context, and
// the maximum of attempts that its kind has now. The task's attempts begin anew, and its last error is cleared. It keeps its
// id, owner, kind, key, subject, labels and queue: give tasks about different subjects different keys. For example, each
// change of a document schedules its export for a minute later. Then the export runs once, a minute after the last change and
// with the newest data. A handler can replace its own task so: the task stays pending, with the new data.
func KeyReplace(k string) Option { return keyed(k, rowform.ReplacePending) }

// Once makes the task unique by (owner, kind, key) for the row's whole life, until its retention ends: scheduling again
// returns the task, whatever became of it.
func Once(k string) Option { return keyed(k, rowform.OnceOnly) }

// Window admits one task of (owner, kind, key) in each window of length d: scheduling again within the window returns the task
// that was admitted, whatever became of it. Windows are fixed: the database's clock, in milliseconds since 1970, is divided by
// d. The moment of scheduling decides in which window a task is, not its due time. So a task that is admitted near the end of a
// window may be followed by another task right after it. The length is 1 s to 10 years, in whole milliseconds. A window of
// another length is another window, also under the same key. The key may have up to MaxKey bytes, as any key. If a window is
// longer than the retention of ended tasks, it admits another task once the row is purged.
func Window(k string, d time.Duration) Option {
	return func(spec *Spec) {
		keyed(k, rowform.OncePerWindow)(spec)
		spec.window = d
	}
}

// MaxWait bounds how long scheduling again, by KeyMove or KeyReplace, can put a task off: it is due within d of the moment when it was
// first scheduled or, if its handler was called since, of that call. So a document that changes all the time is exported every d at the
// latest, with its newest data. 1 ms to 10 years. What holds is the bound of the spec that moves the task; other changes, such as
// Reschedule, are not bounded.
func MaxWait(d time.Duration) Option {
	return func(spec *Spec) { spec.bound, spec.bounded = d, true }
}

func keyed(k string, mode rowform.KeyMode) Option {
	return func(spec *Spec) {
		spec.keys++
		spec.key, spec.mode = k, mode
	}
}

// WithID sets the task's id, one chosen by the caller, as when a call is repeated after an unknown commit. It is a UUIDv7 of about now (NewID): with
// another one, or one that is older than some minutes, scheduling reads whether such a task has ended.
func WithID(id ID) Option { return func(spec *Spec) { spec.row.ID = id } }

// OrderKey says in which order the task, of a kind that is InOrder, takes effect: after all earlier tasks with the same key, whoever owns
// them. For example, marches of several players that meet at a city share the city's key. 1 to MaxKey bytes. A task that the spec's key
// moves or replaces keeps its order key.
func OrderKey(k string) Option { return func(spec *Spec) { spec.order, spec.ordered = k, true } }

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
func (s Spec) At() (time.Time, bool) { return rowform.CeilMs(s.when.at), !s.when.relative }

// In returns how long after the moment of scheduling the task is due; false if the moment is fixed.
func (s Spec) In() (time.Duration, bool) { return s.when.in, s.when.relative }

// Mode returns what to do when the key is taken.
func (s Spec) Mode() rowform.KeyMode { return s.mode }

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
	due = s.Within(due, now)
	t := s.row
	t.Kind, t.Queue, t.MaxAttempts = s.kind.Name, s.kind.Queue, s.kind.MaxAttempts
	t.DueAt, t.RunAt, t.CreatedAt, t.UpdatedAt = due, due, now, now
	t.State, t.Version, t.DedupKey, t.OrderKey = Pending, 1, s.dedupKey(now), s.orderKey()
	return t, nil
}

// Within returns the due time, or the latest one that MaxWait allows to a task that waits since this moment.
func (s Spec) Within(due, since time.Time) time.Time {
	if latest := rowform.CeilMs(since.Add(s.bound)); s.bounded && latest.Before(due) {
		return latest
	}
	return due
}

func (s Spec) check() error {
	if s.err != nil {
		return s.err
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
	if err := s.checkKey(); err != nil {
		return err
	}
	if err := s.checkLabels(); err != nil {
		return err
	}
	if err := s.checkOrder(); err != nil {
		return err
	}
	if len(s.row.Payload) > MaxPayload {
		return &FieldError{"payload", fmt.Sprintf("must be at most %d bytes of JSON, and has %d", MaxPayload, len(s.row.Payload))}
	}
	return nil
}

func (s Spec) checkKey() error {
	if s.keys > 1 {
		return &FieldError{"key", "must be given once: by Key, KeyMove, KeyReplace, Once or Window"}
	}
	if s.bounded && s.mode != rowform.MovePending && s.mode != rowform.ReplacePending {
		return &FieldError{"max_wait", "must not be set without KeyMove or KeyReplace"}
	}
	if s.bounded && (s.bound < time.Millisecond || s.bound > MaxAhead) {
		return &FieldError{"max_wait", "must be 1 ms to 10 years"}
	}
	if s.mode == rowform.Unkeyed {
		return nil
	}
	if s.mode == rowform.OncePerWindow && (s.window < minWindow || s.window > MaxAhead || s.window%time.Millisecond != 0) {
		return &FieldError{"window", "must be 1 second to 10 years, in whole milliseconds"}
	}
	return checkText("key", s.key, 1, MaxKey)
}

func (s Spec) checkOrder() error {
	switch {
	case !s.ordered:
		return nil
	case !s.kind.InOrder:
		return &FieldError{"order_key", "must not be set: kind " + s.kind.Name + " is not InOrder"}
	default:
		return checkText("order_key", s.order, 1, MaxKey)
	}
}

// orderKey is the order key as the row holds it; empty for none.
func (s Spec) orderKey() string {
	switch {
	case !s.kind.InOrder:
		return ""
	case s.ordered:
		return rowform.OrderByKey + s.order
	default:
		return rowform.OrderBySubject + s.row.Owner + rowform.OrderSeparator + s.row.Subject
	}
}

// dedupKey is the key as the row holds it: its first letter says how long it holds, so that the end of the task can
// free it in SQL.
func (s Spec) dedupKey(now time.Time) string {
	switch s.mode {
	case rowform.Unkeyed:
		return ""
	case rowform.OnceOnly:
		return rowform.OnceKey + s.key
	case rowform.OncePerWindow:
		return rowform.WindowKey + windowOf(now, s.window) + s.key
	default:
		return rowform.PendingKey + s.key
	}
}

// windowOf names the window of a moment by its number and length. A row can hold them before the longest key: their product is
// a moment before 2039, of 13 digits, so that they have 14 digits in all.
func windowOf(now time.Time, d time.Duration) string {
	length := d.Milliseconds()
	return strconv.FormatInt(now.UnixMilli()/length, 10) + "/" + strconv.FormatInt(length, 10) + "/"
}
