package task

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrNoOperation says that no operation has this id, or that it was purged after its retention.
	ErrNoOperation = errors.New("operation not found")
	// ErrOperationTaken says that another operation, with another verb or filter, has this id.
	ErrOperationTaken = errors.New("another operation has this id")
	// ErrOperationOver says that an operation was cancelled, or is done: it can't be paused, resumed or cancelled.
	ErrOperationOver = errors.New("operation is over")
)

// maxRate is how many tasks a second an operation can be limited to.
const maxRate = 1_000_000

// Verb is what an operation does to each task that its filter chooses. A verb is for tasks of one state.
type Verb string

// The verbs.
const (
	VerbShift   Verb = "shift"   // pending tasks: their due times move by Operation.By, as schedule.Tx's Shift does; see Operation.Recurrences
	VerbCancel  Verb = "cancel"  // pending tasks: they are taken back
	VerbRequeue Verb = "requeue" // pending tasks: they go to the queue Operation.To
	VerbRetry   Verb = "retry"   // dead tasks: pending again, due now, with all their attempts
	VerbDiscard Verb = "discard" // dead tasks: they end as cancelled
)

// From returns the state of the tasks that the verb is for; false for an unknown verb.
func (v Verb) From() (State, bool) {
	switch v {
	case VerbShift, VerbCancel, VerbRequeue:
		return Pending, true
	case VerbRetry, VerbDiscard:
		return Dead, true
	default:
		return Pending, false
	}
}

// OperationState is the state of an operation.
type OperationState int8

// The states of an operation. The numbers are those of the column.
const (
	OperationRunning   OperationState = iota // the daemon works on it, in turn with the others
	OperationPaused                          // until somebody resumes it
	OperationCancelled                       // by a service or an operator; what it has changed stays so
	OperationDone                            // it has come to the last task
)

var operationStates = []string{"running", "paused", "cancelled", "done"}

// String returns the state's name.
func (s OperationState) String() string {
	if s < 0 || int(s) >= len(operationStates) {
		return fmt.Sprintf("state %d", int8(s))
	}
	return operationStates[s]
}

// MarshalText returns the state's name, so that JSON carries names.
func (s OperationState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Operation is a change of all tasks that a filter chooses; a row of duetime_operations. The daemon walks through the tasks by
// their ids, in pages of a transaction each, and changes each task once at most. A task that was made after the operation is
// not its task. Verb, By, To, Filter, Rate, Limit, Matched, Recurrences and Undoes are the caller's; the other fields are set
// by duetime.
type Operation struct {
	ID      ID // the caller's own, so that a call can be repeated; zero: duetime makes one
	Verb    Verb
	By      time.Duration // of VerbShift: how far due times move
	To      string        // of VerbRequeue: the queue
	Filter  Filter
	Rate    int   // tasks changed a second at most; 0: as many as the daemon's care for running tasks allows
	Limit   int   // tasks changed at most, the first ones by their ids; 0: all
	Matched int64 // tasks that a preview has counted; 0: none was made

	// Recurrences, of VerbShift, moves tasks of recurrences too. Without it they stay on their timetables, whatever the filter says.
	Recurrences bool
	// Undoes, of VerbShift, is an earlier shift by -By: of the tasks that the filter chooses, only those move back that it
	// moved by all of that time, and that nothing has changed since.
	Undoes ID

	State  OperationState
	Cursor ID // tasks up to this id were looked at; zero at the beginning

	// Of the tasks that were looked at: Looked matched a moment before they were locked, and the others are parts of these.
	Looked    int64
	Changed   int64
	Ended     int64 // ended meanwhile, or are dead no more
	Unchanged int64 // locked by others for too long, a key that another task has, or a time out of bounds

	Actor      string // who made it: the actor of the tasks' history
	Error      string // why the daemon has paused it
	CreatedAt  time.Time
	UpdatedAt  time.Time
	FinishedAt time.Time // zero while it runs or is paused
}

// Check returns a FieldError for input outside the limits.
func (o Operation) Check() error {
	from, known := o.Verb.From()
	switch {
	case !known:
		return &FieldError{"verb", "must be shift, cancel, requeue, retry or discard"}
	case o.Verb == VerbShift && (o.By == 0 || o.By.Abs() > MaxAhead || o.By%time.Millisecond != 0):
		return &FieldError{"by", "must be whole milliseconds other than 0, and at most 10 years"}
	case o.Verb != VerbShift && o.By != 0:
		return &FieldError{"by", "must not be set: it is for the verb shift"}
	case o.Verb != VerbShift && o.Recurrences:
		return &FieldError{"recurrences", "must not be set: it is for the verb shift"}
	case o.Verb != VerbShift && !o.Undoes.IsZero():
		return &FieldError{"undoes", "must not be set: it is for the verb shift"}
	case o.Verb != VerbRequeue && o.To != "":
		return &FieldError{"to", "must not be set: it is for the verb requeue"}
	case o.Verb == VerbRequeue && checkQueue(o.To) != nil:
		return &FieldError{"to", fmt.Sprintf("must be 1 to %d characters of A-Z a-z 0-9 . _ -", MaxQueue)}
	case o.Rate < 0 || o.Rate > maxRate:
		return &FieldError{"rate", fmt.Sprintf("must be 0 to %d tasks a second", maxRate)}
	case o.Limit < 0:
		return &FieldError{"limit", "must not be below 0"}
	case from != Dead && !o.Filter.DiedBefore.IsZero():
		return &FieldError{"died_before", "must not be set: it is for the verbs retry and discard"}
	case o.Matched < 0:
		return &FieldError{"matched", "must not be below 0"}
	}
	return o.Filter.Check()
}

// LeavesRecurrences reports whether the operation leaves tasks of recurrences as they are.
func (o Operation) LeavesRecurrences() bool { return o.Verb == VerbShift && !o.Recurrences }

// Over reports whether the operation has come to an end.
func (o Operation) Over() bool { return o.State == OperationCancelled || o.State == OperationDone }

// Left is how many of the tasks that the preview has counted are still to come; 0 without a preview.
func (o Operation) Left() int64 { return max(0, o.Matched-o.Changed-o.Ended-o.Unchanged) }

// String says in words what the operation does, without its progress.
func (o Operation) String() string {
	text := string(o.Verb)
	switch o.Verb {
	case VerbShift:
		text += " by " + o.By.String()
	case VerbRequeue:
		text += " to " + o.To
	}
	if o.Undoes.IsZero() || !o.Filter.All {
		text += ", " + o.Filter.String()
	}
	if !o.Undoes.IsZero() {
		text += ", what operation " + o.Undoes.String() + " moved"
	}
	if o.LeavesRecurrences() {
		text += ", without recurrences"
	}
	if o.Limit > 0 {
		text += fmt.Sprintf(", at most %d", o.Limit)
	}
	return text
}
