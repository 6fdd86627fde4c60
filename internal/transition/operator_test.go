package transition_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// operators are what an operator may do with a dead task.
var operators = map[string]func(task.Task, time.Time) (task.Task, error){
	"retry":   transition.Retry,
	"dismiss": transition.Dismiss,
}

// resting is the key of a dead task.
func resting(r task.Task, key string) string {
	return "d" + base64.RawURLEncoding.EncodeToString(r.ID[:]) + key
}

func TestDeadTaskIsRetried(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opt  task.Option
		want string
	}{
		"key": {task.Key(strings.Repeat("k", task.MaxKey)), "k" + strings.Repeat("k", task.MaxKey)},
		// Its id in a key must not be taken for the mark of a dead task's.
		"once": {task.Once("dAAAA"), "odAAAA"},
		"none": {task.Subject("cat"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row := pending(t, time.Hour, c.opt)
			dead := transition.Fail(transition.Fail(transition.Fail(row, errBoom, 0, now), errBoom, 0, now), errBoom, 0, now)
			if len(dead.DedupKey) > 160 {
				t.Errorf("key of %d bytes", len(dead.DedupKey))
			}
			later := now.Add(time.Minute)
			got, err := transition.Retry(dead, later)
			want := row
			want.DueAt, want.RunAt, want.UpdatedAt, want.Version = later, later, later, 5
			want.TriedAt, want.LastError, want.DedupKey = now, "boom", c.want
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("error %v, row (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestDeadTaskIsDismissed(t *testing.T) {
	t.Parallel()
	dead := transition.Discard(pending(t, time.Hour, task.Key("k")), errBoom, now)
	later := now.Add(time.Minute)
	got, err := transition.Dismiss(dead, later)
	want := dead
	want.State, want.FinishedAt, want.UpdatedAt, want.Version, want.DedupKey = task.Cancelled, later, later, 3, ""
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, row (-want +got):\n%s", err, diff)
	}
}

func TestOnlyDeadTasksAreOperatedOn(t *testing.T) {
	t.Parallel()
	row := pending(t, time.Hour)
	cancelled, _ := transition.Cancel(row, now)
	for want, r := range map[error]task.Task{
		task.ErrNotDead: row, task.ErrAlreadyDone: transition.Finish(row, now), task.ErrAlreadyCancelled: cancelled,
	} {
		for name, operate := range operators {
			got, err := operate(r, now)
			if diff := cmp.Diff(r, got); !errors.Is(err, want) || diff != "" {
				t.Errorf("%s of a %v task: error %v, want %v; changed:\n%s", name, r.State, err, want, diff)
			}
		}
	}
}

func TestCatchUpWindow(t *testing.T) {
	t.Parallel()
	const window = time.Minute
	row := pending(t, 0)
	failed, snoozed := transition.Fail(row, errBoom, time.Second, now), transition.Rearm(row, time.Second, now)
	moved, err := transition.Move(row, now.Add(time.Hour), now)
	if err != nil {
		t.Fatal(err)
	}
	replaced, err := transition.Replace(failed, row, now.Add(time.Hour)) // by a key, with a bound: it keeps its due time
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		row    task.Task
		window time.Duration
		late   time.Duration
		want   bool
	}{
		{"in time", row, window, window, false},
		{"too late", row, window, window + time.Millisecond, true},
		{"without a window", row, 0, 10000 * time.Hour, false},
		{"a retry", failed, window, time.Hour, false},
		{"after a snooze", snoozed, window, time.Hour, false},
		{"replaced after a failure", replaced, window, time.Hour, false},
		{"moved", moved, window, time.Hour, false},
	} {
		late, skip := transition.Late(c.row, c.window, now.Add(c.late))
		if skip != c.want {
			t.Errorf("%s: %v late, skipped is %v, want %v", c.name, late, skip, c.want)
		}
	}
	got := transition.Skip(row, time.Hour, window, now)
	if got.State != task.Cancelled || got.Version != 2 || got.FinishedAt.IsZero() || !strings.HasPrefix(got.LastError, "skipped: 1h0m0s late") {
		t.Errorf("skipped: %+v", got)
	}
}

func TestCatchUpWindowHasLimits(t *testing.T) {
	t.Parallel()
	defer func() {
		if v := recover(); v == nil || !strings.Contains(v.(string), "catch_up_window") {
			t.Errorf("panic %v, want one that names the window", v)
		}
	}()
	task.NewKind[int]("late", task.CatchUpWindow(-time.Second))
}
