package transition

import (
	"fmt"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/rowform"
	"github.com/duetime/duetime/pkg/task"
)

// Changed tells the transition of a task by a service, a handler or an operator: moved or cancelled, and of a dead task retried or
// discarded. The actor is left to who writes it.
func Changed(before, after task.Task) protocol.Event {
	e := protocol.Event{At: after.UpdatedAt, Task: after.ID, Name: protocol.EventCancelled}
	switch {
	case before.State == task.Dead && after.State == task.Pending:
		e.Name, e.Detail = protocol.EventRetried, retriedDetail(before)
	case before.State == task.Dead:
		e.Name, e.Detail = protocol.EventDiscarded, deadDetail(before)
	case after.State == task.Pending:
		e.Name = protocol.EventMoved
		e.Detail = "by " + after.DueAt.Sub(before.DueAt).String() + " to " + after.DueAt.Format(rowform.MomentText)
	}
	return e
}

func deadDetail(before task.Task) string {
	return fmt.Sprintf("was dead after %d attempts: %s", before.Attempt, before.LastError)
}

// retriedDetail is what the row of a retried task no longer says.
func retriedDetail(before task.Task) string {
	return "was due " + before.DueAt.Format(rowform.MomentText) + ", " + deadDetail(before)
}

// Recurred tells the transition of a recurrence by the end of its task; false for one that simply made the next. Its Task is
// the recurrence's id.
func Recurred(before, after task.Recurrence) (protocol.Event, bool) {
	e := protocol.Event{At: after.UpdatedAt, Task: after.ID}
	n := after.Skipped - before.Skipped
	skipped := func() string { return fmt.Sprintf("%d ticks up to %s", n, after.Passed.Format(rowform.MomentText)) }
	switch {
	case after.State == task.RecurrenceOver:
		e.Name = protocol.EventOver
		if e.Detail = "no further tick"; n > 0 {
			e.Detail += ", skipped " + skipped()
		}
	case after.State == task.RecurrencePaused && before.State == task.RecurrenceActive:
		e.Name, e.Detail = protocol.EventPaused, after.Note
	case n > 0:
		e.Name, e.Detail = task.EventSkipped, skipped()
	default:
		return e, false
	}
	return e, true
}
