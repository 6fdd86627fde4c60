package transition

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/rowform"
	"github.com/duetime/duetime/pkg/task"
)

// BeginOperation returns the operation as it is written at this moment of the database's clock, or a FieldError.
func BeginOperation(o task.Operation, actor string, now time.Time) (task.Operation, error) {
	if err := o.Check(); err != nil {
		return task.Operation{}, err
	}
	f := &o.Filter
	f.DueAfter, f.DueBefore, f.DiedBefore = rowform.WholeMs(f.DueAfter), rowform.WholeMs(f.DueBefore), rowform.WholeMs(f.DiedBefore)
	f.IDs = slices.Compact(slices.SortedFunc(slices.Values(f.IDs), task.ID.Compare)) // the daemon goes through them in this order
	return task.Operation{
		ID: cmp.Or(o.ID, task.NewID()), Verb: o.Verb, By: o.By, To: o.To, Filter: o.Filter, Rate: o.Rate, Limit: o.Limit, Matched: o.Matched,
		Recurrences: o.Recurrences, Undoes: o.Undoes, Actor: actor, CreatedAt: now, UpdatedAt: now,
	}, nil
}

// SameOperation reports whether both do the same to the same tasks.
func SameOperation(o task.Operation, other task.Operation) bool {
	return o.Verb == other.Verb && o.By == other.By && o.To == other.To && o.Recurrences == other.Recurrences &&
		o.Limit == other.Limit && o.Undoes == other.Undoes && SameFilter(o.Filter, other.Filter)
}

// OperationMatches reports whether the operation changes the task, as its row is now.
func OperationMatches(o task.Operation, t task.Task) bool {
	from, known := o.Verb.From()
	return known && t.State == from && chooses(o, t) && (o.Verb != task.VerbRequeue || t.Queue != o.To)
}

// OperationTooLate reports whether the operation would have changed the task, had the task not left its state before.
func OperationTooLate(o task.Operation, t task.Task) bool {
	from, known := o.Verb.From()
	return known && t.State != from && chooses(o, t)
}

// chooses decides by the row alone. What an operation moved that is undone stands in the history, of which the store asks
// before the row is locked: a row that was changed in between has changed since.
func chooses(o task.Operation, t task.Task) bool {
	_, _, tick := t.Tick()
	return !t.CreatedAt.After(o.CreatedAt) && FilterMatches(o.Filter, t) && (!tick || !o.LeavesRecurrences()) &&
		(o.Undoes.IsZero() || t.UpdatedAt.Before(o.CreatedAt))
}

// Apply is the operation's transition of a task. Its errors are those of transition.Shift, transition.Cancel, transition.Requeue, transition.Retry and
// transition.Dismiss.
func Apply(o task.Operation, t task.Task, now time.Time) (task.Task, error) {
	switch o.Verb {
	case task.VerbShift:
		return Shift(t, o.By, now)
	case task.VerbCancel:
		return Cancel(t, now)
	case task.VerbRequeue:
		return Requeue(t, o.To, now)
	case task.VerbRetry:
		return Retry(t, now)
	case task.VerbDiscard:
		return Dismiss(t, now)
	default:
		return t, &task.FieldError{Field: "verb", Problem: "is unknown: " + string(o.Verb)}
	}
}

// OperationEvent is the line of the history about a task that the operation has changed.
func OperationEvent(o task.Operation, before, after task.Task) protocol.Event {
	e := Changed(before, after)
	if e.Actor = o.Actor; o.Verb == task.VerbRequeue {
		e.Name, e.Detail = protocol.EventRequeued, "from "+before.Queue+" to "+after.Queue
	}
	e.Detail = strings.TrimPrefix(e.Detail+", operation "+o.ID.String(), ", ")
	return e
}

// UndoOperation returns the operation that moves back what a shift that is over has moved. Tasks that anything has changed
// since stay, such as those that ran, and those that the shift moved by less or more, because no task moves to before now. What
// the history no longer says is not undone.
func UndoOperation(o task.Operation) (task.Operation, error) {
	switch {
	case o.Verb != task.VerbShift:
		return task.Operation{}, &task.FieldError{Field: "verb", Problem: "must be shift to be undone, and is " + string(o.Verb)}
	case !o.Over():
		return task.Operation{}, &task.FieldError{Field: "state", Problem: "must be done or cancelled to be undone, and is " + o.State.String()}
	}
	filter := task.Filter{Owner: o.Filter.Owner, IDs: o.Filter.IDs} // by which the daemon walks through few tasks
	filter.All = filter.Owner == "" && len(filter.IDs) == 0
	return task.Operation{Verb: task.VerbShift, By: -o.By, Filter: filter, Recurrences: o.Recurrences, Undoes: o.ID}, nil
}

// ShiftedDetail is the detail of the lines that OperationEvent makes of tasks which a shift has moved by all of its time, as a
// pattern of LIKE.
func ShiftedDetail(shift task.ID, by time.Duration) string {
	return "by " + by.String() + " to %, operation " + shift.String()
}

// Room is how many of n tasks the operation may still change.
func Room(o task.Operation, n int) int {
	if o.Limit == 0 {
		return n
	}
	return min(n, max(0, o.Limit-int(o.Changed)))
}

// EndOperation is the transition after the last task.
func EndOperation(o task.Operation, now time.Time) task.Operation {
	done, _ := ChangeOperation(o, task.OperationDone, now)
	return done
}

// RefuseOperation is the transition to paused of an operation that this program can't read, as one of a later version.
func RefuseOperation(o task.Operation, cause error, now time.Time) task.Operation {
	o.State, o.Error, o.UpdatedAt = task.OperationPaused, errorText(cause), now
	return o
}

// ChangeOperation is the transition to another state, by a service or an operator. It answers ErrOperationOver.
func ChangeOperation(o task.Operation, s task.OperationState, now time.Time) (task.Operation, error) {
	if o.Over() {
		return o, fmt.Errorf("%w: %v", task.ErrOperationOver, o.State)
	}
	if o.State, o.Error, o.UpdatedAt = s, "", now; o.Over() {
		o.FinishedAt = now
	}
	return o, nil
}

func sameExclusion(e task.Exclusion, other task.Exclusion) bool {
	return slices.Equal(e.Kinds, other.Kinds) && slices.Equal(e.Labels, other.Labels)
}

// FilterMatches reports whether the filter chooses the task, as far as the row says. A task's labels are rows of their own, which never
// change: the statement that finds the task compares them, also with those to leave out.
func FilterMatches(f task.Filter, t task.Task) bool {
	return chosen(f.Kind, t.Kind) && chosen(f.Owner, t.Owner) && strings.HasPrefix(t.Owner, f.OwnerPrefix) &&
		chosen(f.Queue, t.Queue) && chosen(f.Subject, t.Subject) &&
		!slices.Contains(f.Exclude.Kinds, t.Kind) && !t.DueAt.Before(f.DueAfter) && (f.DueBefore.IsZero() || t.DueAt.Before(f.DueBefore)) &&
		(len(f.IDs) == 0 || slices.Contains(f.IDs, t.ID)) &&
		(f.DiedBefore.IsZero() || t.State != task.Dead || t.FinishedAt.Before(f.DiedBefore))
}

// SameFilter reports whether both filters choose by the same fields.
func SameFilter(f task.Filter, other task.Filter) bool {
	if !f.DueAfter.Equal(other.DueAfter) || !f.DueBefore.Equal(other.DueBefore) || !maps.Equal(f.Labels, other.Labels) ||
		!sameExclusion(f.Exclude, other.Exclude) || !slices.Equal(f.IDs, other.IDs) || !f.DiedBefore.Equal(other.DiedBefore) {
		return false
	}
	f.DueAfter, f.DueBefore, f.Labels, f.Exclude = other.DueAfter, other.DueBefore, other.Labels, other.Exclude
	f.IDs, f.DiedBefore = other.IDs, other.DiedBefore
	return reflect.DeepEqual(f, other)
}

func chosen(wanted, value string) bool { return wanted == "" || wanted == value }
