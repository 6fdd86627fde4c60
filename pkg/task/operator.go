package task

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Transitions that only an operator makes, or that a policy makes instead of a run.

// ErrNotDead answers the retry or the dismissal of a task that waits for its run.
var ErrNotDead = errors.New("task is pending, not dead")

// ErrKeyTaken answers the retry of a task whose key another task has taken since it died.
var ErrKeyTaken = errors.New("another task has its key")

// Retry is an operator's transition from dead back to pending: due now, with all its attempts. It has its key again; the
// write fails where another task has taken that meanwhile. Other states answer as for Cancel, pending ErrNotDead.
func (t Task) Retry(now time.Time) (Task, error) {
	if err := t.mustBeDead(); err != nil {
		return t, err
	}
	if key, ok := strings.CutPrefix(t.DedupKey, t.restingKey()); ok {
		t.DedupKey = pendingKey + key
	}
	t.State, t.FinishedAt = Pending, time.Time{}
	t.DueAt, t.RunAt, t.Attempt = now, now, 0
	return t.next(now), nil
}

// Dismiss is an operator's transition from dead to cancelled: nobody will look at the task again. It keeps its last error,
// and is purged after its retention like any other. Its errors are those of Retry.
func (t Task) Dismiss(now time.Time) (Task, error) {
	if err := t.mustBeDead(); err != nil {
		return t, err
	}
	if strings.HasPrefix(t.DedupKey, t.restingKey()) {
		t.DedupKey = ""
	}
	t.State, t.FinishedAt = Cancelled, now
	return t.next(now), nil
}

// Requeue is an operator's transition of a pending task to another queue, where the workers are that know its kind now. It
// stays due when it was, with the attempts that it has had. A task that is there already is returned as it is; one that has
// ended answers as for Cancel.
func (t Task) Requeue(queue string, now time.Time) (Task, error) {
	if err := t.State.finished(); err != nil {
		return t, err
	}
	if t.Queue == queue {
		return t, nil
	}
	t.Queue = queue
	return t.next(now), nil
}

func (t Task) mustBeDead() error {
	switch t.State {
	case Dead:
		return nil
	case Pending:
		return ErrNotDead
	default:
		return t.State.finished()
	}
}

// restingKey is what the key of a dead task begins with.
func (t Task) restingKey() string { return deadKey + base64.RawURLEncoding.EncodeToString(t.ID[:]) }

// Late returns by how much a first try that began now would miss the window that its kind has for catching up; false for a
// task that would not. Whether it is the first try is told by the row: each failure charges an attempt, and each rest that a
// handler asked for sets another time. What a worker without a handler did to the task does not count.
func (t Task) Late(window time.Duration, now time.Time) (time.Duration, bool) {
	late := now.Sub(t.DueAt)
	return late, window > 0 && late > window && t.Attempt == 0 && (t.RunAt.Equal(t.DueAt) || t.unrun())
}

// Skip is the transition of a task that is too late to be run at all.
func (t Task) Skip(late, window time.Duration, now time.Time) Task {
	if t.State != Pending {
		return t
	}
	t.LastError = fmt.Sprintf("skipped: %v late, to be caught up with within %v", late, window)
	return t.end(Cancelled, now)
}
