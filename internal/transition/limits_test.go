package transition_test

import (
	"math"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

func TestRetriesStayWithinWhatAScoreHolds(t *testing.T) {
	t.Parallel()
	late := time.UnixMilli(1<<41 - 1000)
	row := task.Task{Version: 1, MaxAttempts: 9}
	for name, next := range map[string]task.Task{
		"fail":  transition.Fail(row, errBoom, time.Hour, late),
		"rearm": transition.Rearm(row, time.Hour, late),
	} {
		if got := next.RunAt.UnixMilli(); got != 1<<41-1 {
			t.Errorf("%s: next try at %d, want %d", name, got, int64(1<<41-1))
		}
	}
}

func TestBackoffBounds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		b       task.Backoff
		attempt int
		most    time.Duration
	}{
		"first":       {task.DefaultBackoff, 1, time.Second},
		"third":       {task.DefaultBackoff, 3, 4 * time.Second},
		"many":        {task.DefaultBackoff, 1000, 10 * time.Minute},
		"none":        {task.DefaultBackoff, 0, time.Second},
		"overflowing": {task.Backoff{Min: 1 << 61, Max: math.MaxInt64}, 1000, math.MaxInt64},
		"odd top":     {task.Backoff{Min: time.Second, Max: 5 * time.Second}, 4, 5 * time.Second},
		"fixed":       {task.Backoff{Min: time.Millisecond, Max: time.Millisecond}, 7, time.Millisecond},
		"zero":        {task.Backoff{}, 3, time.Millisecond},
		"negative":    {task.Backoff{Min: -1, Max: -1}, 3, time.Millisecond},
	} {
		var most time.Duration
		for range 2000 {
			d := transition.RetryDelay(test.b, test.attempt)
			if d < time.Millisecond || d > test.most {
				t.Fatalf("%s: waits %v, want 1ms to %v", name, d, test.most)
			}
			most = max(most, d)
		}
		if most < test.most/2 {
			t.Errorf("%s: waits at most %v of 2000, want up to %v", name, most, test.most)
		}
	}
}
