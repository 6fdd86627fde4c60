package worker

import "github.com/duetime/duetime/pkg/task"

// lane is a row of runners with its own queue of hints, so that what is slow or dangerous delays only its like.
type lane int

const (
	laneBatch   lane = iota // first tries, many in a transaction
	laneSingle              // one task a transaction: outside and slow handlers, and what harmed its batch
	laneRetry               // one task a transaction: what has failed before; half as many runners, so that who is well does not wait for it
	laneSuspect             // one task at a time in the whole process: what may kill it
	lanes
)

// laneOf says where the task belongs. An attempt charged here before its handler ran doesn't count as a failure yet.
func laneOf(h *held, row task.Task, apart bool) lane {
	failures := row.Attempt
	if h.charged {
		failures--
	}
	switch {
	case h.suspect && (failures > 0 || row.MaxAttempts == 1):
		return laneSuspect
	case failures > 0:
		return laneRetry
	case h.alone || apart:
		return laneSingle
	default:
		return laneBatch
	}
}

// exhausted reports whether the task used up its attempts by killing its process: each was charged before its handler ran,
// and none came back to say how it ended.
func exhausted(h *held, row task.Task) bool {
	return h.suspect && !h.charged && row.Attempt >= row.MaxAttempts
}
