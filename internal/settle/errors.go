package settle

import (
	"errors"
	"fmt"
	"time"
)

// ErrStuck says that maxAbandoned handlers at once ignore the end of their context.
var ErrStuck = errors.New("handlers ignore their context")

// Errors that end a transaction. Their names say what follows.
var (
	// errRetryNow: the batch learnt something, such as whom to charge. The next transaction begins at once.
	errRetryNow = errors.New("run again at once")
	// errPrepared: what is written commits before handlers run. The next transaction begins at once.
	errPrepared = errors.New("commit, and run again at once")
	// errNothing: nothing is written, so a COMMIT would be for nothing.
	errNothing = errors.New("nothing to commit")
	// errSplit: the tasks of the batch can't share a transaction. Each gets a transaction of its own.
	errSplit = errors.New("run each task by itself")
	// errCountLoss: the context of some handler ended the connection; it is unknown of which.
	errCountLoss = errors.New("transaction cut off by a handler's context")
	// errAskRows: the commit was never answered. The next look at the rows tells whether it took effect.
	errAskRows = errors.New("commit without an answer")
)

// Errors that a task is charged for.
var (
	errTimeout   = errors.New("handler exceeded") // which limit: see newTimeouts
	errAbandoned = errors.New("handler ignored the end of its context and was abandoned")
	errExited    = errors.New("handler ended its goroutine")
	errKilled    = errors.New("the process ended in each attempt")
	errEnded     = errors.New("worker: the handler ended the transaction that it shares with other tasks")
)

// errCallOver answers a statement of a handler that has returned.
var errCallOver = errors.New("the handler that this transaction was for has returned")

// SnoozeError is the answer of a handler that wants its task to run once more after Delay, uncharged.
type SnoozeError struct {
	Delay     time.Duration
	PausesKey bool // for as long, all tasks of the task's owner in its queue
}

func (e SnoozeError) Error() string { return fmt.Sprintf("snoozed for %v", e.Delay) }

// DiscardError is the answer of a handler that wants its task dead at once.
type DiscardError struct{ Cause error }

func (e DiscardError) Error() string { return fmt.Sprintf("discarded: %v", e.Cause) }

// Unwrap returns the cause.
func (e DiscardError) Unwrap() error { return e.Cause }

// panicError is the failure of a handler that panicked.
type panicError struct {
	value any
	stack []byte
}

func (e panicError) Error() string { return fmt.Sprintf("handler panicked: %v", e.value) }

// lossError is the failure of a handler whose transaction was lost in each of its runs.
type lossError struct {
	runs  int
	cause error
}

func (e lossError) Error() string {
	return fmt.Sprintf("its transaction was lost in each of %d runs while the database answered others: %v", e.runs, e.cause)
}

func (e lossError) Unwrap() error { return e.cause }
