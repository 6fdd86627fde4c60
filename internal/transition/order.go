package transition

import (
	"fmt"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/rowform"
	"github.com/duetime/duetime/pkg/task"
)

// What becomes of a due task that takes effect in order, while an earlier one of its order key is pending.

// Behind begins the last error of a task that waits for an earlier one of its order key. A task whose handler was called before begins
// with BehindTried instead: the two differ for CatchUpWindow.
const (
	Behind      = "never run: " + behindReason
	BehindTried = "not run: " + behindReason
)

const behindReason = "waits for task "

const (
	minBehindDelay = time.Second // a head that is due has been waited for already: see package settle
	maxBehindDelay = time.Minute // how long a head's end may go unnoticed that no worker told of
	behindShare    = 4           // of the task's age
)

// IsBefore reports whether a comes before b, by which the tasks of one order key take effect.
func IsBefore(a, b task.Task) bool { return CompareDue(a, b) < 0 }

// CompareDue orders tasks by due time, then by id.
func CompareDue(a, b task.Task) int {
	if c := a.DueAt.Compare(b.DueAt); c != 0 {
		return c
	}
	return a.ID.Compare(b.ID)
}

// OrderText is the task's order key for people: as its spec gave it, or else its owner and its subject; empty for none.
func OrderText(t task.Task) string {
	key, given := strings.CutPrefix(t.OrderKey, rowform.OrderByKey)
	if !given {
		key = strings.TrimSuffix(strings.ReplaceAll(strings.TrimPrefix(key, rowform.OrderBySubject), rowform.OrderSeparator, " "), " ")
	}
	return key
}

// WaitBehind is the transition of a due task whose key has an earlier task: the next try comes with the head's, or soon if the head is due
// already. It charges no attempt, says in the last error for whom and why, and counts as no try for CatchUpWindow. The older the task, the
// longer the wait at most: a head that never ends must not load the pipeline with those that wait for it.
func WaitBehind(t task.Task, head protocol.Head, now time.Time) task.Task {
	if t.State != task.Pending {
		return t
	}
	mark := BehindTried
	if t.Attempt == 0 && (t.RunAt.Equal(t.DueAt) || unrun(t)) {
		mark = Behind
	}
	share := now.Sub(t.DueAt) / behindShare
	if head.RunAt.After(now) {
		t.RunAt = nextTry(now, min(head.RunAt.Sub(now), max(share, maxBehindDelay)))
	} else {
		t.RunAt = nextTry(now, min(max(share, minBehindDelay), maxBehindDelay))
	}
	t.LastError = Cut(mark+waitReason(head), MaxError)
	return next(t, now)
}

// waitReason names the head, and why it has not ended.
func waitReason(head protocol.Head) string {
	text := fmt.Sprintf("%s of kind %q and owner %q, due %s", head.ID, head.Kind, head.Owner, head.DueAt.Format(rowform.MomentText))
	if head.Held {
		text += fmt.Sprintf(", paused or limited in queue %q", head.Queue)
	}
	if head.Attempt > 0 || !head.RunAt.Equal(head.DueAt) {
		text += fmt.Sprintf(", attempt %d of %d, next try %s", head.Attempt, head.MaxAttempts, head.RunAt.Format(rowform.MomentText))
	}
	if head.LastError != "" {
		text += ": " + head.LastError
	}
	return text
}

// WaitsBehind reports whether the task waits for an earlier one of its order key.
func WaitsBehind(t task.Task) bool {
	return t.State == task.Pending && (strings.HasPrefix(t.LastError, Behind) || strings.HasPrefix(t.LastError, BehindTried))
}

// Follow is the transition of a task that waited behind another one and is the first of its key now: it is due at once.
func Follow(t task.Task, now time.Time) task.Task {
	if !WaitsBehind(t) || !t.RunAt.After(now) {
		return t
	}
	t.RunAt = rowform.Latest(t.DueAt, now)
	return next(t, now)
}
