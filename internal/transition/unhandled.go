package transition

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// What becomes of a due task whose kind the worker that took it does not know: it waits for one that does.

// Unhandled begins the last error of a task that waits for a worker which knows its kind. A task whose handler was called
// before says Unknown instead: the two differ for CatchUpWindow.
const (
	Unhandled = "never run: " + unhandledReason
	Unknown   = "not run: " + unhandledReason
)

const unhandledReason = "no worker that took it from queue "

const (
	minUnhandledDelay = 2 * time.Second // a rolling deployment takes seconds
	maxUnhandledDelay = 5 * time.Minute // twice that, with the jitter, is how long a kind that comes back may go unnoticed
	unhandledShare    = 3               // of the task's age

	unhandledOld           = time.Hour       // a row of this age may be met for the first time: after an outage, or with a time long past
	maxFirstUnhandledDelay = 5 * time.Second // the longest first wait of such a row, so that it meets other workers soon
)

// Await is the transition of a due task of a kind that no handler here knows. It charges no attempt, says why in the last
// error, and counts as no try for CatchUpWindow. The older the task, the longer the wait: a kind that nobody handles any more
// must not load the pipeline for ever. A row that is old already begins with a short wait, and each wait is at most twice the
// one before. The time of the next try makes its hint go to another partition than the last one, and
// so perhaps to a worker that knows the kind: see RouteKey.
func Await(t task.Task, now time.Time) task.Task {
	if t.State != task.Pending {
		return t
	}
	mark := Unknown
	if t.Attempt == 0 && (t.RunAt.Equal(t.DueAt) || unrun(t)) {
		mark = Unhandled
	}
	reason := fmt.Sprintf("%s%q handles kind %q", mark, t.Queue, t.Kind)
	var before time.Duration
	if Waits(t) {
		before = t.RunAt.Sub(t.UpdatedAt)
	}
	t.LastError = reason
	t.RunAt = protocol.OnTheMove(nextTry(now, awaitDelay(now.Sub(t.DueAt), before)))
	return next(t, now)
}

// awaitDelay draws how long a task of this age waits for a worker that knows its kind, after the wait before.
func awaitDelay(age, before time.Duration) time.Duration {
	delay := min(max(age/unhandledShare, minUnhandledDelay), maxUnhandledDelay)
	if age > unhandledOld {
		delay = min(delay, max(before, maxFirstUnhandledDelay))
	}
	return delay + rand.N(delay) //nolint:gosec // jitter needs no secrecy
}

// unrun reports whether no handler was ever called for the task, though its next try was put off.
func unrun(t task.Task) bool {
	for _, mark := range [...]string{Unhandled, Behind, Paused, Limited} {
		if strings.HasPrefix(t.LastError, mark) {
			return true
		}
	}
	return false
}

// Waits reports whether the task waits for a worker that knows its kind.
func Waits(t task.Task) bool {
	return t.State == task.Pending && (strings.HasPrefix(t.LastError, Unhandled) || strings.HasPrefix(t.LastError, Unknown))
}
