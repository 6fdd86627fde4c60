package worker

import (
	"strings"
	"time"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/pkg/task"
)

// laneOf says where the task belongs. An attempt charged here before its handler ran doesn't count as a failure yet.
func laneOf(h *hold.Hint, row task.Task, apart bool) hold.Lane {
	failures := row.Attempt
	if h.Charge.State == hold.Charged {
		failures--
	}
	switch {
	case h.Suspect && (failures > 0 || row.MaxAttempts == 1):
		return hold.LaneSuspect
	case failures > 0:
		return hold.LaneRetry
	case apart:
		return hold.LaneSingle
	default:
		return hold.LaneBatch
	}
}

// exhausted reports whether the task used up its attempts by killing its process: each was charged before its handler ran,
// and none came back to say how it ended. The last attempt is begun twice before that is believed: it may be that each of its
// charges was made by a worker that ended before the handler ran, and could not take the charge back.
func exhausted(h *hold.Hint, row task.Task) bool {
	return h.Suspect && h.Charge.State != hold.Charged && row.Attempt >= row.MaxAttempts && strings.HasPrefix(row.LastError, lastBegun)
}

// On the row of a suspect whose last attempt is begun once more stands by whom, and what stood there before.
const (
	lastBegun  = "last attempt begun once more, not answered yet, by worker "
	errBefore  = "; before that: "
	keepBefore = 800 // bytes of what stood there before: the column has room for 1024
)

// chargeBefore charges an attempt to a suspect before its handler runs. The last one is begun once more without a further
// charge.
func chargeBefore(row task.Task, holder string, now time.Time) task.Task {
	if row.Attempt >= row.MaxAttempts {
		before := strings.ToValidUTF8(row.LastError[:min(len(row.LastError), keepBefore)], "")
		row.LastError = lastBegun + holder + errBefore + before
		row.Attempt--
	}
	return row.Charge(now)
}

// takeBack undoes chargeBefore.
func takeBack(row task.Task, now time.Time) task.Task {
	if strings.HasPrefix(row.LastError, lastBegun) {
		_, row.LastError, _ = strings.Cut(row.LastError, errBefore)
		row.Attempt++ // beginning it once more was no charge
	}
	return row.Refund(now)
}

// chargedBefore reports whether a worker that left in good order charged the task's last attempt before its handler ran, and
// then neither ran it nor took the charge back: for whoever runs it now it is charged already.
func chargedBefore(h *hold.Hint, row task.Task) bool {
	return !h.Suspect && row.Attempt >= row.MaxAttempts
}
