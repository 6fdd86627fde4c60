package protocol

import "github.com/duetime/duetime/pkg/task"

// Call is a call of a handler that has not returned, as a process reports it.
type Call struct {
	Kind    string  `json:"kind"`
	Task    task.ID `json:"task"`     // the first one
	Tasks   int     `json:"tasks"`    // of the call
	SinceMs int64   `json:"since_ms"` // Unix milliseconds of the database's clock
	LimitMs int64   `json:"limit_ms"` // after which the call's context ends
}

// Unhandled is the number of pending tasks of a queue and kind that wait for a worker of their kind.
type Unhandled struct {
	Queue, Kind string
	Tasks       int64
}
