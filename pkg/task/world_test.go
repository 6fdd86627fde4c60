package task_test

import (
	"errors"
	"testing"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

var (
	kind    = task.NewKind[map[string]int]("meal.done", task.Queue("pets"), task.MaxAttempts(3))
	now     = time.UnixMilli(1_800_000_000_123).UTC()
	errBoom = errors.New("boom")
)

func pending(t testing.TB, in time.Duration, opts ...task.Option) task.Task {
	t.Helper()
	row, err := kind.New("ann", map[string]int{"n": 1}, task.In(in), opts...).Resolve(now)
	if err != nil {
		t.Fatal(err)
	}
	return row
}
