package transition

import (
	"strings"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/rowform"
	"github.com/duetime/duetime/pkg/task"
)

// What becomes of a due task that a pause of its kind or its owner has left alone, or whose slot by the rate of its owner is far.

// Paused begins the last error of a task that was put off to the end of a pause, and Limited of one that was put off to its slot
// by the rate of its owner. A task whose handler was called before begins with PausedTried or LimitedTried instead: the two differ for CatchUpWindow.
const (
	Paused       = neverRun + pausedReason
	PausedTried  = notRun + pausedReason
	Limited      = neverRun + limitedReason
	LimitedTried = notRun + limitedReason
)

const (
	neverRun      = "never run: "
	notRun        = "not run: "
	pausedReason  = "paused until "
	limitedReason = "limited until "
	putOffBefore  = "; before that: " // then the error of the last failed attempt
)

// PutOff is the transition of a due task that is paused: its next try comes when the pause ends. It charges no attempt, and
// counts as no try for CatchUpWindow.
func PutOff(t task.Task, until, now time.Time) task.Task {
	return putOff(t, runMark(t)+pausedReason, until, now)
}

// PutOffToSlot is PutOff for a task whose slot comes at a moment.
func PutOffToSlot(t task.Task, slot, now time.Time) task.Task {
	return putOff(t, runMark(t)+limitedReason, protocol.KeepingRoute(slot), now)
}

func runMark(t task.Task) string {
	if t.Attempt == 0 && t.TriedAt.IsZero() && (t.RunAt.Equal(t.DueAt) || unrun(t)) {
		return neverRun
	}
	return notRun
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
	} else if IsPutOff(t) {
		failed = beforePutOff(failed)
	}
	t.RunAt = nextTry(now, until.Sub(now))
	t.LastError = mark + t.RunAt.Format(rowform.MomentText)
	if failed != "" {
		t.LastError = Cut(t.LastError+putOffBefore+failed, MaxError)
	}
	return next(t, now)
}

// beforePutOff returns the error of the last failed attempt, if any, of a task that IsPutOff.
func beforePutOff(lastError string) string {
	_, failed, _ := strings.Cut(lastError, putOffBefore)
	return failed
}

// WaitsForPause reports whether the task was put off to the end of a pause.
func WaitsForPause(t task.Task) bool {
	return t.State == task.Pending && (strings.HasPrefix(t.LastError, Paused) || strings.HasPrefix(t.LastError, PausedTried))
}

// WaitsForSlot reports whether the task was put off to its slot by the rate of its owner.
func WaitsForSlot(t task.Task) bool {
	return t.State == task.Pending && (strings.HasPrefix(t.LastError, Limited) || strings.HasPrefix(t.LastError, LimitedTried))
}

// IsPutOff reports whether the task waits for the end of a pause, or for its slot.
func IsPutOff(t task.Task) bool { return WaitsForPause(t) || WaitsForSlot(t) }

// Resume is the transition of a task that was put off to the end of a pause which is over before: it is due at once.
func Resume(t task.Task, now time.Time) task.Task {
	if !WaitsForPause(t) || !t.RunAt.After(now) {
		return t
	}
	t.RunAt = rowform.Latest(t.DueAt, now)
	return next(t, now)
}
