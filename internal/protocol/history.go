package protocol

import (
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// What lines of the history say, beside what handlers' events say.
const (
	EventMoved     = "moved"
	EventReplaced  = "replaced" // a later spec with its key has given it other data
	EventCancelled = "cancelled"
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
	EventAdded     = "added"    // a queue, by an operator
	EventRetired   = "retired"  // a queue that was added, or one whose limits and pauses the daemon has forgotten as nobody used it
	EventDegraded  = "degraded" // looks at MySQL stand in for a queue's hints; told again each minute
	EventRecovered = "recovered"
	EventBlocked   = "blocked"   // an owner's tasks were cancelled, and no others are made
	EventUnblocked = "unblocked" // tasks may be made for the owner again
	EventMended    = "mended"    // of a group: members had ended without being counted
	EventFollows   = "follows"   // of a follower: the last member of its group has ended
)

// Event is one line of the history that people read: what became of a task beyond a plain firing, or what an operator
// asked for. Nothing is decided by it.
type Event struct {
	At     time.Time
	Task   task.ID // or a recurrence's, or an operation's; zero for what concerns an owner, a queue, a shard, a leader
	Name   string
	Actor  string // service, worker, or user@host of an operator
	Detail string // by how much, which error, which queue
}

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
