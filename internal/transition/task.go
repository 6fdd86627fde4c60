package transition

import (
	"math/rand/v2"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/duetime/duetime/internal/rowform"
	"github.com/duetime/duetime/pkg/task"
)

// FiredFrom is the moment from which lag is measured: a task made after its due time can't have fired before.
func FiredFrom(t task.Task) time.Time {
	if t.CreatedAt.After(t.DueAt) {
		return t.CreatedAt
	}
	return t.DueAt
}

// Move is the transition to another due time; the past means now, but for the due time that the task has. It answers
// ErrAlreadyDone and its kin when the task has ended.
func Move(t task.Task, due, now time.Time) (task.Task, error) {
	if err := finished(t.State); err != nil {
		return t, err
	}
	if !due.Equal(t.DueAt) {
		var err error
		if due, err = clampDue(due, now); err != nil {
			return t, err
		}
	}
	if Waits(t) || WaitsBehind(t) || IsPutOff(t) {
		t.LastError = "" // of a time that is over
	}
	t.DueAt, t.RunAt = due, due
	return next(t, now), nil
}

// Replace is the transition by which a pending task takes over what a later spec with its key says; with is the row that the
// later spec's Resolve has made. The task takes its payload, maximum of attempts, due time and trace context, and begins its
// attempts anew. It keeps what its index entry names, such as subject and queue, so that a late write of before the replace
// meets the entry's newer version. The errors are those of Move.
func Replace(t task.Task, with task.Task, now time.Time) (task.Task, error) {
	next, err := Move(t, with.DueAt, now)
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
func Shift(t task.Task, d time.Duration, now time.Time) (task.Task, error) {
	if err := finished(t.State); err != nil {
		return t, err
	}
	due, run := sooner(t.DueAt, d, now), sooner(t.RunAt, d, now)
	if d > 0 {
		var err error
		if due, err = clampDue(t.DueAt.Add(d), now); err != nil {
			return t, err
		}
		run = rowform.Latest(due, t.RunAt, nextTry(t.RunAt, d))
	}
	t.DueAt, t.RunAt = due, run
	return next(t, now), nil
}

// sooner is a moment that was moved by d ≤ 0, but not to before now.
func sooner(at time.Time, d time.Duration, now time.Time) time.Time {
	moved := rowform.Latest(rowform.CeilMs(at.Add(d)), now)
	if moved.After(at) {
		return at
	}
	return moved
}

// Cancel is the transition that takes the task back.
func Cancel(t task.Task, now time.Time) (task.Task, error) {
	if err := finished(t.State); err != nil {
		return t, err
	}
	return end(t, task.Cancelled, now), nil
}

// Finish is the transition to done, in the transaction of the effect. Like the transitions below, it leaves a task that
// has ended as it is; the version then shows that there is nothing to write.
func Finish(t task.Task, now time.Time) task.Task {
	if IsPutOff(t) {
		t.LastError = beforePutOff(t.LastError)
	} else if WaitsBehind(t) {
		t.LastError = "" // the wait is over
	}
	return end(t, task.Done, now)
}

// Fail charges an attempt: the next try comes after the delay, or the task is dead when its attempts are used up.
func Fail(t task.Task, cause error, delay time.Duration, now time.Time) task.Task {
	if t.State != task.Pending {
		return t
	}
	t.Attempt++
	return AfterCharge(t, cause, delay, now)
}

// AfterCharge is Fail for an attempt that was charged before its handler ran.
func AfterCharge(t task.Task, cause error, delay time.Duration, now time.Time) task.Task {
	if t.State != task.Pending || t.Attempt >= t.MaxAttempts {
		return Discard(t, cause, now)
	}
	t.LastError = errorText(cause)
	t.RunAt, t.TriedAt = nextTry(now, delay), now
	return next(t, now)
}

// Charge counts an attempt before its handler runs, so that a task that kills its process is charged all the same.
func Charge(t task.Task, now time.Time) task.Task {
	if t.State != task.Pending {
		return t
	}
	t.Attempt++
	return next(t, now)
}

// Rearm sets the next try without charging an attempt, because the task's handler asked for it.
func Rearm(t task.Task, delay time.Duration, now time.Time) task.Task {
	if t.State != task.Pending {
		return t
	}
	if IsPutOff(t) {
		t.LastError = beforePutOff(t.LastError)
	} else if unrun(t) || WaitsBehind(t) {
		t.LastError = "" // it has been with a handler now: a mark that stays would have it woken before its time
	}
	t.RunAt, t.TriedAt = nextTry(now, delay), now
	return next(t, now)
}

// Refund takes back an attempt that was charged before its handler ran, which then was not run to an end. The next try stays
// where it was: nothing has been tried.
func Refund(t task.Task, now time.Time) task.Task {
	if t.State != task.Pending || t.Attempt == 0 {
		return t
	}
	t.Attempt--
	return next(t, now)
}

// Discard is the transition to dead.
func Discard(t task.Task, cause error, now time.Time) task.Task {
	if t.State != task.Pending {
		return t
	}
	t.LastError = errorText(cause)
	return end(t, task.Dead, now)
}

func next(t task.Task, now time.Time) task.Task {
	t.Version++
	t.UpdatedAt = now
	return t
}

func end(t task.Task, s task.State, now time.Time) task.Task {
	if t.State != task.Pending {
		return t
	}
	t.State, t.FinishedAt = s, now
	if key, ok := strings.CutPrefix(t.DedupKey, rowform.PendingKey); ok {
		t.DedupKey = ""
		if s == task.Dead {
			t.DedupKey = storedKey(restingKey(t) + key)
		}
	}
	return next(t, now)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return Cut(err.Error(), MaxError)
}

// Cut shortens a text to limit bytes, which its column has room for, without splitting a character.
func Cut(s string, limit int) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= limit {
		return s
	}
	for s = s[:limit]; !utf8.ValidString(s); s = s[:len(s)-1] {
	}
	return s
}

// Change is a task before and after a transition; Before is empty if there was no task.
type Change struct{ Before, After task.Task }

// BeforeOf returns the tasks as they were.
func BeforeOf(changes []Change) []task.Task {
	return of(changes, func(c Change) task.Task { return c.Before })
}

func of(changes []Change, which func(Change) task.Task) []task.Task {
	all := make([]task.Task, len(changes))
	for i, c := range changes {
		all[i] = which(c)
	}
	return all
}

// finished returns the error that answers a change of a task in this state; nil while it is pending.
func finished(s task.State) error {
	switch s {
	case task.Pending:
		return nil
	case task.Done:
		return task.ErrAlreadyDone
	case task.Cancelled:
		return task.ErrAlreadyCancelled
	default:
		return task.ErrAlreadyDead
	}
}

// MaxError is how many bytes of a failure's text a row keeps.
const MaxError = 1024

// nextTry is the moment so long after now, as far as a row and a score can hold it: a delay below zero means now, one
// beyond the limits of a due time is cut to them.
func nextTry(now time.Time, delay time.Duration) time.Time {
	at := rowform.CeilMs(now.Add(min(max(delay, 0), task.MaxAhead)))
	if at.UnixMilli() > rowform.MaxUnixMs {
		return time.UnixMilli(rowform.MaxUnixMs).UTC()
	}
	return at
}

// clampDue brings a due time into the limits of a new task's: the past means now, too far is refused.
func clampDue(due, now time.Time) (time.Time, error) { return task.In(due.Sub(now)).Due(now) }

// RetryDelay draws the wait after the attempt of this number (1 = the first) failed: at least a millisecond, at most Max.
func RetryDelay(b task.Backoff, attempt int) time.Duration {
	bound := min(b.Min, b.Max)
	for i := 1; i < attempt && bound < b.Max; i++ {
		if bound > b.Max/2 {
			bound = b.Max // doubling could overflow
			break
		}
		bound *= 2
	}
	bound = max(bound, time.Millisecond)
	return time.Millisecond + rand.N(bound-time.Millisecond+1) //nolint:gosec // jitter needs no secrecy
}
