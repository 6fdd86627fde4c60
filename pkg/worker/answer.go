package worker

import (
	"errors"
	"time"

	"github.com/duetime/duetime/internal/settle"
)

// ErrStuck is what Work returns when several handlers at once ignore the end of their context: each keeps a goroutine and
// perhaps a connection for ever, so that only a new process helps.
var ErrStuck = settle.ErrStuck

// ErrOwnKey is what scheduling answers to a handler that gives a follow-up the key, or the id, of the very task that it runs:
// that task still has it, and would be the answer, so that nothing would follow. Nothing was changed.
var ErrOwnKey = settle.ErrOwnKey

// Snooze is the answer of a handler that wants to be called again after d, without an attempt being charged. What it did
// through its Tx is undone.
func Snooze(d time.Duration) error { return settle.SnoozeError{Delay: d} }

// PauseKey is the answer of a handler that met a limit of its task's owner, such as a 429 of a customer's API: Snooze until
// that moment, on this process's clock, by 31 days at most, to the next whole second. Until then no other task of the owner in the queue runs either:
// those that come due are put off to that moment, uncharged, and cost nothing while they wait. All workers know of it within
// a second; Console.Pauses lists it, and Console.EndPause ends it. A batch handler pauses the owners of all its tasks. In a
// fresh read PauseKey is Snooze.
func PauseKey(until time.Time) error {
	return settle.SnoozeError{Delay: max(0, time.Until(until)), PausesKey: true}
}

// IsSnooze reports whether an error is that of Snooze or PauseKey, for middleware: the task has not failed.
func IsSnooze(err error) bool {
	_, snoozed := errors.AsType[settle.SnoozeError](err)
	return snoozed
}

// IsDiscard reports whether an error is Discard's, for middleware: the task will be dead.
func IsDiscard(err error) bool {
	_, discarded := errors.AsType[settle.DiscardError](err)
	return discarded
}

// Discard is the answer of a handler that knows that no further attempt can help: the task is dead at once. What the
// handler did through its Tx is undone.
func Discard(err error) error { return settle.DiscardError{Cause: err} }
