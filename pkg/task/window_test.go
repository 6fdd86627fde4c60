package task_test

import (
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// keyAt is the key that a row has which is scheduled at a moment.
func keyAt(t testing.TB, at time.Time, option task.Option) string {
	t.Helper()
	row, err := kind.New("ann", nil, task.In(time.Hour), option).Resolve(at)
	if err != nil {
		t.Fatal(err)
	}
	return row.DedupKey
}

// The moment of scheduling says which window it is, and the rows of two windows have two keys.
func TestWindowsAreFixed(t *testing.T) {
	t.Parallel()
	midnight := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	day := task.Window("k", 24*time.Hour)
	first := keyAt(t, midnight, day)
	for name, test := range map[string]struct {
		key  string
		same bool
	}{
		"later in the window":        {keyAt(t, midnight.Add(time.Hour), day), true},
		"its last millisecond":       {keyAt(t, midnight.Add(24*time.Hour-time.Millisecond), day), true},
		"in another zone":            {keyAt(t, midnight.In(time.FixedZone("", 8*3600)), day), true},
		"the next window":            {keyAt(t, midnight.Add(24*time.Hour), day), false},
		"the millisecond before":     {keyAt(t, midnight.Add(-time.Millisecond), day), false},
		"another length":             {keyAt(t, midnight, task.Window("k", 12*time.Hour)), false},
		"another key":                {keyAt(t, midnight, task.Window("l", 24*time.Hour)), false},
		"Once of that key":           {keyAt(t, midnight, task.Once("k")), false},
		"Once of what the row holds": {keyAt(t, midnight, task.Once(first[1:])), false},
	} {
		if got := test.key == first; got != test.same {
			t.Errorf("%s: key %q beside %q", name, test.key, first)
		}
	}
}

// Windows of other lengths are others, also where they have the same number.
func TestWindowsOfOtherLengths(t *testing.T) {
	t.Parallel()
	if a, b := keyAt(t, now, task.Window("k", task.MaxAhead)), keyAt(t, now, task.Window("k", task.MaxAhead-time.Hour)); a == b {
		t.Errorf("both keys are %q", a)
	}
}

// A key that has digits and slashes of its own is not taken for a window.
func TestWindowsOfKeysThatLookLikeWindows(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(120_000)
	if a, b := keyAt(t, at, task.Window("2/60000/k", time.Minute)), keyAt(t, at, task.Window("k", time.Minute)); a == b {
		t.Errorf("both keys are %q", a)
	}
}

// A row holds 160 characters of a key.
func TestLongestKeyOfAWindowFits(t *testing.T) {
	t.Parallel()
	last := time.UnixMilli(1<<41 - 1).Add(-time.Hour)
	for d := time.Second; d <= task.MaxAhead; d = min(d*3, task.MaxAhead) {
		if key := keyAt(t, last, task.Window(strings.Repeat("k", task.MaxKey), d)); len(key) > 160 {
			t.Errorf("of length %v: %d characters", d, len(key))
		}
		if d == task.MaxAhead {
			break
		}
	}
}

// The key of a window outlives its task, as that of Once.
func TestKeyOfAWindowStays(t *testing.T) {
	t.Parallel()
	row := pending(t, time.Hour, task.Window("k", time.Minute))
	cancelled, err := transition.Cancel(row, now)
	if err != nil {
		t.Fatal(err)
	}
	for name, ended := range map[string]task.Task{
		"done": transition.Finish(row, now), "cancelled": cancelled, "dead": transition.Discard(row, errBoom, now),
	} {
		if ended.DedupKey != row.DedupKey || row.DedupKey == "" {
			t.Errorf("%s: key %q, was %q", name, ended.DedupKey, row.DedupKey)
		}
	}
}
