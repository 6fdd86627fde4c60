package transition

import (
	"strings"
	"time"

	"github.com/duetime/duetime/internal/rowform"
	"github.com/duetime/duetime/pkg/task"
)

// What becomes of a due task that a pause of its kind or its owner has left alone.

// Paused begins the last error of a task that was put off to the end of a pause. A task whose handler was called before
// begins with PausedTried instead: the two differ for CatchUpWindow.
const (
	Paused      = "never run: " + pausedReason
	PausedTried = "not run: " + pausedReason
)

const (
	pausedReason = "paused until "
	pausedBefore = "; before that: " // then the error of the last failed attempt
)

// PutOff is the transition of a due task that is paused: its next try comes when the pause ends. It charges no attempt, and
// counts as no try for CatchUpWindow.
func PutOff(t task.Task, until, now time.Time) task.Task {
	mark := PausedTried
	if t.Attempt == 0 && t.TriedAt.IsZero() && (t.RunAt.Equal(t.DueAt) || unrun(t)) {
		mark = Paused
	}
	return putOff(t, mark, until, now)
}

// RearmPaused is Rearm for a task whose handler pauses what it is one of.
func RearmPaused(t task.Task, until, now time.Time) task.Task {
	put := putOff(t, PausedTried, until, now)
	put.TriedAt = now
	return put
}

func putOff(t task.Task, mark string, until, now time.Time) task.Task {
	if t.State != task.Pending {
		return t
	}
	failed := t.LastError
	if Waits(t) || WaitsBehind(t) {
		failed = ""
	} else if WaitsForPause(t) {
		failed = beforePause(failed)
	}
	t.RunAt = nextTry(now, until.Sub(now))
	t.LastError = mark + t.RunAt.Format(rowform.MomentText)
	if failed != "" {
		t.LastError = Cut(t.LastError+pausedBefore+failed, MaxError)
	}
	return next(t, now)
}

// beforePause returns the error of the last failed attempt, if any, of a task that was put off to the end of a pause.
func beforePause(lastError string) string {
	_, failed, _ := strings.Cut(lastError, pausedBefore)
	return failed
}

// WaitsForPause reports whether the task was put off to the end of a pause.
func WaitsForPause(t task.Task) bool {
	return t.State == task.Pending && (strings.HasPrefix(t.LastError, Paused) || strings.HasPrefix(t.LastError, PausedTried))
}

// Resume is the transition of a task that was put off to the end of a pause which is over before: it is due at once.
func Resume(t task.Task, now time.Time) task.Task {
	if !WaitsForPause(t) || !t.RunAt.After(now) {
		return t
	}
	t.RunAt = rowform.Latest(t.DueAt, now)
	return next(t, now)
}
