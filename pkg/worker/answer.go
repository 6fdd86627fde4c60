package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/pkg/task"
)

// ErrStuck is what Run returns when several handlers at once ignore the end of their context: each keeps a goroutine and
// perhaps a connection for ever, so that only a new process helps.
var ErrStuck = errors.New("handlers ignore their context")

var (
	errTimeout   = errors.New("handler exceeded worker.handler_timeout (Config.HandlerTimeout)")
	errAbandoned = errors.New("handler ignored the end of its context, after worker.handler_timeout or worker.drain, and was abandoned")
	errDrained   = errors.New("handler is rolled back: it exceeded worker.drain (Config.Drain)")
	errExited    = errors.New("handler ended its goroutine")
	errKilled    = errors.New("the process ended in each attempt")
)

type snoozeError struct{ delay time.Duration }

func (e snoozeError) Error() string { return fmt.Sprintf("snoozed for %v", e.delay) }

// Snooze is the answer of a handler that wants to be called again after d, without an attempt being charged. What it did
// through its Tx is undone.
func Snooze(d time.Duration) error { return snoozeError{d} }

type discardError struct{ cause error }

func (e discardError) Error() string { return fmt.Sprintf("discarded: %v", e.cause) }
func (e discardError) Unwrap() error { return e.cause }

// Discard is the answer of a handler that knows that no further attempt can help: the task is dead at once. What the
// handler did through its Tx is undone.
func Discard(err error) error { return discardError{err} }

type panicError struct {
	value any
	stack []byte
}

func (e panicError) Error() string { return fmt.Sprintf("handler panicked: %v", e.value) }

// afterFailure is the transition that the answer of a handler asks for.
func afterFailure(h *hold.Hint, row task.Task, backoff task.Backoff, now time.Time) (task.Task, result) {
	var snooze snoozeError
	var discard discardError
	switch {
	case errors.As(h.Failure.Err, &snooze):
		if h.Charge.State == hold.Charged {
			row.Attempt--
		}
		return row.Rearm(snooze.delay, now), resultSnoozed
	case errors.As(h.Failure.Err, &discard):
		if h.Charge.State != hold.Charged {
			row.Attempt++
		}
		row = row.Discard(discard.cause, now)
	case h.Charge.State == hold.Charged:
		row = row.AfterCharge(h.Failure.Err, backoff.Delay(row.Attempt), now)
	default:
		row = row.Fail(h.Failure.Err, backoff.Delay(row.Attempt+1), now)
	}
	if row.State == task.Dead {
		return row, resultDead
	}
	return row, resultFailed
}
