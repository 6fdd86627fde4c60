package transition

import (
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/rowform"
	"github.com/duetime/duetime/pkg/task"
)

// What becomes of rows that other programs insert past our limits: they fire, or end dead with a reason.

// maxStoredKey is how many characters of a key a row holds.
const maxStoredKey = 160

// Impossible says why no worker can ever run the task; nil if one may. Only a row that another program inserted can be so: it
// is to end dead, where it is listed with the reason, instead of waiting for ever.
func Impossible(t task.Task) error {
	if err := protocol.CheckKind(t.Kind); err != nil {
		return fmt.Errorf("no worker can handle kind %q: %w", t.Kind, err)
	}
	if t.DueAt.UnixMilli() > rowform.MaxUnixMs || t.RunAt.UnixMilli() > rowform.MaxUnixMs {
		return errors.New("due_at and run_at must be Unix milliseconds before September 2039")
	}
	return nil
}

// Promised is the transition of a task whose next try stands before its due time, as only another program writes it: it waits
// for its due time.
func Promised(t task.Task, now time.Time) task.Task {
	if t.State != task.Pending || !t.RunAt.Before(t.DueAt) {
		return t
	}
	t.RunAt = t.DueAt
	return next(t, now)
}

// Repeat is the transition of a pending task whose id is that of a task that has ended long ago: it was inserted once more, and must not run.
func Repeat(t task.Task, now time.Time) task.Task {
	if t.State != task.Pending {
		return t
	}
	t.LastError = "not run: a task with this id has ended before"
	return end(t, task.Cancelled, now)
}

// Sane returns the row with its counters as the transitions can take them.
func Sane(t task.Task) task.Task {
	t.Attempt = min(max(t.Attempt, 0), math.MaxInt32-1) // the next one must fit as well
	t.MaxAttempts = max(t.MaxAttempts, 1)
	return t
}

// storedKey cuts a key to what a row holds.
func storedKey(key string) string {
	if utf8.RuneCountInString(key) <= maxStoredKey {
		return key
	}
	return string([]rune(key)[:maxStoredKey])
}
