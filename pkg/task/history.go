package task

import (
	"fmt"
	"time"
)

// Event is one line of the history that people read: what became of a task beyond a plain firing, or what an operator
// asked for. Nothing is decided by it.
type Event struct {
	At     time.Time
	Task   ID // or a recurrence's, or an operation's; zero for what concerns an owner, a queue, a shard, a leader
	Name   string
	Actor  string // service, worker, or user@host of an operator
	Detail string // by how much, which error, which queue
}

// EventDone is no line of the history, since the row itself says so: hooks are called with it (worker.Mux.OnEvent).
const EventDone = "done"

// Names of events.
const (
	EventMoved     = "moved"
	EventReplaced  = "replaced" // a later spec with its key has given it other data
	EventFailed    = "failed"
	EventSnoozed   = "snoozed"
	EventCancelled = "cancelled"
	EventSkipped   = "skipped"
	EventDead      = "dead"
	EventRetried   = "retried"
	EventDiscarded = "discarded"
	EventRequeued  = "requeued"
	EventImported  = "imported" // made of what waited in another system
	EventPaused    = "paused"
	EventResumed   = "resumed"
	EventResign    = "resign"
	EventRebuild   = "rebuild"
	EventShards    = "shards"   // the number of shards changes, or has changed
	EventHorizon   = "horizon"  // how far ahead tasks stand in the index changes, or has changed
	EventDefined   = "defined"  // of a recurrence: made, or given another timetable, policy or tasks
	EventStopped   = "stopped"  // of a recurrence, or an operation, by a service or an operator
	EventOver      = "over"     // of a recurrence: there is no further tick; of an operation: there is no further task
	EventBegun     = "begun"    // of an operation: made; what follows is paused, resumed, stopped or over
	EventExtra     = "extra"    // of a recurrence: a task was made beside those of the timetable
	EventLimited   = "limited"  // a queue got another limit of rate or concurrency
	EventDegraded  = "degraded" // looks at MySQL stand in for a queue's hints; told again each minute
	EventRecovered = "recovered"
	EventBlocked   = "blocked"   // an owner's tasks were cancelled, and no others are made
	EventUnblocked = "unblocked" // tasks may be made for the owner again
)

// Actors of events that no operator caused.
const (
	ActorService = "service"
	ActorWorker  = "worker"
)

// OfQueue reports whether the event is one of a queue if its line is about no task.
func (e Event) OfQueue() bool {
	switch e.Name {
	case EventPaused, EventResumed, EventLimited, EventDegraded, EventRecovered:
		return true
	}
	return false
}

// Changed tells the transition of a task by a service, a handler or an operator: moved or cancelled, and of a dead task retried or
// discarded. The actor is left to who writes it.
func Changed(before, after Task) Event {
	e := Event{At: after.UpdatedAt, Task: after.ID, Name: EventCancelled}
	switch {
	case before.State == Dead && after.State == Pending:
		e.Name, e.Detail = EventRetried, retriedDetail(before)
	case before.State == Dead:
		e.Name, e.Detail = EventDiscarded, deadDetail(before)
	case after.State == Pending:
		e.Name = EventMoved
		e.Detail = "by " + after.DueAt.Sub(before.DueAt).String() + " to " + after.DueAt.Format(eventTime)
	}
	return e
}

func deadDetail(before Task) string {
	return fmt.Sprintf("was dead after %d attempts: %s", before.Attempt, before.LastError)
}

// retriedDetail is what the row of a retried task no longer says.
func retriedDetail(before Task) string {
	return "was due " + before.DueAt.Format(eventTime) + ", " + deadDetail(before)
}

// eventTime is how details name a moment.
const eventTime = "2006-01-02T15:04:05.000Z07:00"

// Recurred tells the transition of a recurrence by the end of its task; false for one that simply made the next. Its Task is
// the recurrence's id.
func Recurred(before, after Recurrence) (Event, bool) {
	e := Event{At: after.UpdatedAt, Task: after.ID}
	n := after.Skipped - before.Skipped
	skipped := func() string { return fmt.Sprintf("%d ticks up to %s", n, after.Passed.Format(eventTime)) }
	switch {
	case after.State == RecurrenceOver:
		e.Name = EventOver
		if e.Detail = "no further tick"; n > 0 {
			e.Detail += ", skipped " + skipped()
		}
	case after.State == RecurrencePaused && before.State == RecurrenceActive:
		e.Name, e.Detail = EventPaused, after.Note
	case n > 0:
		e.Name, e.Detail = EventSkipped, skipped()
	default:
		return e, false
	}
	return e, true
}
