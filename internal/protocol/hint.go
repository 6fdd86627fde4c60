package protocol

import (
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
