package task

import "time"

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
	TriedAt     time.Time // when its handler was last called without ending the task; zero: never
	OrderKey    string    // as stored, with its leading letter; empty unless its kind is InOrder
	Group       string    // whose follower waits for its end; empty for none
	Traceparent string    // W3C trace context of the call that scheduled it; empty without tracing
	Ran         int64     // how the last try of a done task went, packed, for people; 0: not known
}
