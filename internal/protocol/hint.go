package protocol

import (
	"context"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// Hint is what Kafka carries: look at this task. Losing, repeating or delaying one is harmless; the row decides.
type Hint struct {
	ID      task.ID `json:"id"`
	Kind    string  `json:"kind"`
	Owner   string  `json:"owner"`
	RunAt   int64   `json:"run_at"`          // Unix milliseconds
	Version int64   `json:"version"`         // mod VersionWindow
	Epoch   int64   `json:"epoch,omitempty"` // of the publishing term, for diagnosis
}

// Moment returns the time of the try that the hint speaks of.
func (h Hint) Moment() time.Time { return time.UnixMilli(h.RunAt).UTC() }

// Delivery is one message of a queue's topic as a worker received it.
type Delivery struct {
	Hint      Hint
	Partition int
	Offset    int64
	Raw       []byte // the message's value, only when Err is set
	Err       error  // the message can't be decoded

	Traceparent string // W3C trace context of the call that published it; empty without tracing
}

// Session is one generation of a consumer group as its member sees it.
//
// Partitions returns the assigned partitions, perhaps none. Fetch returns the available deliveries, at least one and at
// most 1,000, in offset order within a partition, and waits only while there is none. It returns stream.ErrSessionOver once the
// session was lost, or ctx's error. Commit stores the next offset to read of each given partition, within three seconds.
// It returns stream.ErrSessionOver once the group has moved on. Lost is closed when the session ends: on Kafka when the group's
// next generation begins, so that a member that can't reach the coordinator goes on with its partitions. One goroutine
// may fetch while others commit. Share returns the part of the queue's tasks that the member looks for itself, and Brings
// whether the task's hint would come to this member.
type Session interface {
	Share() Share
	Brings(t task.Task) bool
	Partitions() []int
	Fetch(ctx context.Context) ([]Delivery, error)
	Commit(ctx context.Context, next map[int]int64) error
	Lost() <-chan struct{}
}

// DeadLetter is what the dead topic carries about a task that is dead, or about a message that could not be read.
type DeadLetter struct {
	ID      task.ID `json:"id"`
	Kind    string  `json:"kind,omitempty"`
	Owner   string  `json:"owner,omitempty"`
	Queue   string  `json:"queue,omitempty"`
	Attempt int     `json:"attempt,omitempty"`
	Error   string  `json:"error"`
	Raw     []byte  `json:"raw,omitempty"` // of an unreadable message, cut to fit
}

// Compensation asks the daemon to look: at tasks whose index write did not succeed, or at a shard whose memory was lost.
type Compensation struct {
	IDs     []task.ID `json:"ids,omitempty"`
	Rebuild []int     `json:"rebuild,omitempty"` // shards
}

// Share is the part of a queue's tasks that one worker looks for in MySQL. The partitions of a queue divide its tasks by
// CRC32(id) modulo their number, so that workers that look at the same time find different rows.
type Share struct {
	Of   int   // partitions of the queue; 0: the tasks are not divided
	Mine []int // the worker's partitions
}

// Whole reports whether the share has every task.
func (s Share) Whole() bool { return s.Of == 0 || len(s.Mine) >= s.Of }

// Empty reports whether the share has no task.
func (s Share) Empty() bool { return s.Of > 0 && len(s.Mine) == 0 }

// Look asks for pending tasks whose next try is in [From, To), by (run_at, id), after a cursor. A zero From is before all
// times, and a zero After begins at From.
type Look struct {
	Queue    string
	Kinds    []string // not empty
	Share    Share
	From, To time.Time
	After    Cursor
	Limit    int  // rows to examine, also those of other queues, kinds and shares
	Back     bool // from the latest run time to the earliest; After is the cursor of the page before all the same
}

// MaxLead is how far ahead of its time a hint is sent at most.
const MaxLead = 2 * time.Second
