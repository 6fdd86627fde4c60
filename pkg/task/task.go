package task

import (
	"hash/crc32"
	"strings"
	"time"
	"unicode/utf8"
)

// Task is one row of the truth. Times are of the database's clock, in UTC, exact to the millisecond.
type Task struct {
	ID          ID
	Kind        string
	Owner       string // whom the task belongs to: the player
	Subject     string // what it is about: the pet; may be empty
	Queue       string
	Shard       int // where it is indexed
	State       State
	DueAt       time.Time // the promise: schedule, reschedule, shift and an operator's retry set it, nothing else
	RunAt       time.Time // the next try: DueAt until an attempt fails
	Version     int64     // 1 at schedule, +1 at each transition
	Attempt     int       // attempts charged so far
	MaxAttempts int
	DedupKey    string // as stored, with its leading letter; empty for none
	Payload     []byte // JSON
	LastError   string
	CreatedAt   time.Time
	UpdatedAt   time.Time
	FinishedAt  time.Time // zero while pending
	Traceparent string    // W3C trace context of the call that scheduled it; empty without tracing
}

// Shard returns the shard of n in which an owner's new tasks are indexed. SQL computes the same as CRC32(owner) MOD n.
func Shard(owner string, n int) int {
	return int(crc32.ChecksumIEEE([]byte(owner)) % uint32(n)) //nolint:gosec // n is a small positive count
}

// FiredFrom is the moment from which lag is measured: a task made after its due time can't have fired before.
func (t Task) FiredFrom() time.Time {
	if t.CreatedAt.After(t.DueAt) {
		return t.CreatedAt
	}
	return t.DueAt
}

// Move is the transition to another due time; the past means now. It answers ErrAlreadyDone and its kin when the task
// has ended.
func (t Task) Move(due, now time.Time) (Task, error) {
	if err := t.State.finished(); err != nil {
		return t, err
	}
	due, err := clampDue(due, now)
	if err != nil {
		return t, err
	}
	if t.Waits() {
		t.LastError = "" // of a time that is over
	}
	t.DueAt, t.RunAt = due, due
	return t.next(now), nil
}

// Replace is the transition by which a pending task takes over what a later spec with its key says; with is the row that the
// later spec's Resolve has made. The task takes its payload, maximum of attempts, due time and trace context, and begins its
// attempts anew. It keeps what its index entry names, such as subject and queue, so that a late write of before the replace
// meets the entry's newer version. The errors are those of Move.
func (t Task) Replace(with Task, now time.Time) (Task, error) {
	next, err := t.Move(with.DueAt, now)
	if err != nil {
		return t, err
	}
	next.Payload, next.MaxAttempts, next.Traceparent = with.Payload, with.MaxAttempts, with.Traceparent
	next.Attempt, next.LastError = 0, ""
	return next, nil
}

// Shift is the transition by d of the due time, and of the next try with it. For d < 0 each becomes min(t, max(t+d, now)): a
// speed-up never makes a task later, and never puts it before now. For d > 0 the due time is that of a Move to due+d. A task
// that waits for a retry, or rests, goes on waiting: its next try moves by d too, so that putting it off, also by 0, never
// brings it nearer.
func (t Task) Shift(d time.Duration, now time.Time) (Task, error) {
	if err := t.State.finished(); err != nil {
		return t, err
	}
	due, run := sooner(t.DueAt, d, now), sooner(t.RunAt, d, now)
	if d > 0 {
		var err error
		if due, err = clampDue(t.DueAt.Add(d), now); err != nil {
			return t, err
		}
		run = latest(due, t.RunAt, nextTry(t.RunAt, d))
	}
	t.DueAt, t.RunAt = due, run
	return t.next(now), nil
}

// sooner is a moment that was moved by d ≤ 0, but not to before now.
func sooner(at time.Time, d time.Duration, now time.Time) time.Time {
	moved := latest(ceilMs(at.Add(d)), now)
	if moved.After(at) {
		return at
	}
	return moved
}

func latest(first time.Time, others ...time.Time) time.Time {
	for _, t := range others {
		if t.After(first) {
			first = t
		}
	}
	return first
}

// Cancel is the transition that takes the task back.
func (t Task) Cancel(now time.Time) (Task, error) {
	if err := t.State.finished(); err != nil {
		return t, err
	}
	return t.end(Cancelled, now), nil
}

// Finish is the transition to done, in the transaction of the effect. Like the transitions below, it leaves a task that
// has ended as it is; the version then shows that there is nothing to write.
func (t Task) Finish(now time.Time) Task { return t.end(Done, now) }

// Fail charges an attempt: the next try comes after the delay, or the task is dead when its attempts are used up.
func (t Task) Fail(cause error, delay time.Duration, now time.Time) Task {
	if t.State != Pending {
		return t
	}
	t.Attempt++
	return t.AfterCharge(cause, delay, now)
}

// AfterCharge is Fail for an attempt that was charged before its handler ran.
func (t Task) AfterCharge(cause error, delay time.Duration, now time.Time) Task {
	if t.State != Pending || t.Attempt >= t.MaxAttempts {
		return t.Discard(cause, now)
	}
	t.LastError = errorText(cause)
	t.RunAt = nextTry(now, delay)
	return t.next(now)
}

// Charge counts an attempt before its handler runs, so that a task that kills its process is charged all the same.
func (t Task) Charge(now time.Time) Task {
	if t.State != Pending {
		return t
	}
	t.Attempt++
	return t.next(now)
}

// Rearm sets the next try without charging an attempt, because the task's handler asked for it.
func (t Task) Rearm(delay time.Duration, now time.Time) Task {
	if t.State != Pending {
		return t
	}
	if t.unrun() {
		t.LastError = "" // it has been with a handler now
	}
	t.RunAt = nextTry(now, delay)
	return t.next(now)
}

// Refund takes back an attempt that was charged before its handler ran, which then was not run to an end. The next try stays
// where it was: nothing has been tried.
func (t Task) Refund(now time.Time) Task {
	if t.State != Pending || t.Attempt == 0 {
		return t
	}
	t.Attempt--
	return t.next(now)
}

// Discard is the transition to dead.
func (t Task) Discard(cause error, now time.Time) Task {
	if t.State != Pending {
		return t
	}
	t.LastError = errorText(cause)
	return t.end(Dead, now)
}

func (t Task) next(now time.Time) Task {
	t.Version++
	t.UpdatedAt = now
	return t
}

func (t Task) end(s State, now time.Time) Task {
	if t.State != Pending {
		return t
	}
	t.State, t.FinishedAt = s, now
	if key, ok := strings.CutPrefix(t.DedupKey, pendingKey); ok {
		t.DedupKey = ""
		if s == Dead {
			t.DedupKey = storedKey(t.restingKey() + key)
		}
	}
	return t.next(now)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return cut(err.Error(), MaxError)
}

// cut shortens a text to what its column has room for, without splitting a character.
func cut(s string, limit int) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= limit {
		return s
	}
	for s = s[:limit]; !utf8.ValidString(s); s = s[:len(s)-1] {
	}
	return s
}
