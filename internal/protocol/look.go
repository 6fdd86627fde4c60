package protocol

import "time"

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
	Limit    int // rows to examine, also those of other queues, kinds and shares
}
