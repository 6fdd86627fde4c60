package transition

import (
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/rowform"
	"github.com/duetime/duetime/pkg/task"
)

// Retry is an operator's transition from dead back to pending: due now, with all its attempts. It has its key again; the
// write fails where another task has taken that meanwhile. Other states answer as for Cancel, pending ErrNotDead.
func Retry(t task.Task, now time.Time) (task.Task, error) {
	if err := mustBeDead(t); err != nil {
		return t, err
	}
	if key, ok := strings.CutPrefix(t.DedupKey, restingKey(t)); ok {
		t.DedupKey = rowform.PendingKey + key
	}
	t.State, t.FinishedAt = task.Pending, time.Time{}
	t.DueAt, t.RunAt, t.Attempt = now, now, 0
	return next(t, now), nil
}

// Dismiss is an operator's transition from dead to cancelled: nobody will look at the task again. It keeps its last error,
// and is purged after its retention like any other. Its errors are those of Retry.
func Dismiss(t task.Task, now time.Time) (task.Task, error) {
	if err := mustBeDead(t); err != nil {
		return t, err
	}
	if strings.HasPrefix(t.DedupKey, restingKey(t)) {
		t.DedupKey = ""
	}
	t.State, t.FinishedAt = task.Cancelled, now
	return next(t, now), nil
}

// Requeue is an operator's transition of a pending task to another queue, where the workers are that know its kind now. It
// stays due when it was, with the attempts that it has had. A task that is there already is returned as it is; one that has
// ended answers as for Cancel.
func Requeue(t task.Task, queue string, now time.Time) (task.Task, error) {
	if err := finished(t.State); err != nil {
		return t, err
	}
	if t.Queue == queue {
		return t, nil
	}
	if t.Queue = queue; IsPutOff(t) {
		t.RunAt = rowform.Latest(t.DueAt, now) // the other queue may not be paused, or limited
	}
	return next(t, now), nil
}

func mustBeDead(t task.Task) error {
	switch t.State {
	case task.Dead:
		return nil
	case task.Pending:
		return task.ErrNotDead
	default:
		return finished(t.State)
	}
}

// restingKey is what the key of a dead task begins with.
func restingKey(t task.Task) string {
	return rowform.DeadKey + base64.RawURLEncoding.EncodeToString(t.ID[:])
}

// Late returns by how much a first try that began now would miss the window that its kind has for catching up; false for a
// task that would not. Whether it is the first try is told by the row: each failure charges an attempt, and each call of its
// handler that did not end it sets TriedAt. What a worker without a handler did to the task does not count.
func Late(t task.Task, window time.Duration, now time.Time) (time.Duration, bool) {
	late := now.Sub(t.DueAt)
	return late, window > 0 && late > window && t.Attempt == 0 && t.TriedAt.IsZero() && (t.RunAt.Equal(t.DueAt) || unrun(t))
}

// Skip is the transition of a task that is too late to be run at all.
func Skip(t task.Task, late, window time.Duration, now time.Time) task.Task {
	if t.State != task.Pending {
		return t
	}
	t.LastError = fmt.Sprintf("skipped: %v late, to be caught up with within %v", late, window)
	return end(t, task.Cancelled, now)
}
