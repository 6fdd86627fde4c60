package task_test

import (
	"testing"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

func TestOutcome(t *testing.T) {
	t.Parallel()
	other := task.Task{ID: task.NewID()}
	for name, test := range map[string]struct {
		option task.Option
		found  task.Outcome // when another task has the key
	}{
		"key":     {task.Key("k"), task.Kept},
		"move":    {task.KeyMove("k"), task.Moved},
		"replace": {task.KeyReplace("k"), task.Replaced},
		"once":    {task.Once("k"), task.Kept},
		"window":  {task.Window("k", time.Minute), task.Kept},
	} {
		spec := kind.New("ann", nil, task.In(time.Hour), test.option)
		if got := spec.Outcome(task.Task{ID: spec.ID()}); got != task.Made {
			t.Errorf("%s: %v of its own task, want made", name, got)
		}
		if got := spec.Outcome(other); got != test.found {
			t.Errorf("%s: %v of another task, want %v", name, got, test.found)
		}
	}
	for want, o := range map[string]task.Outcome{
		"made": task.Made, "kept": task.Kept, "moved": task.Moved, "replaced": task.Replaced,
		"outcome(0)": 0, "outcome(5)": 5, "outcome(-1)": -1,
	} {
		if got := o.String(); got != want {
			t.Errorf("%d is %q, want %q", int(o), got, want)
		}
	}
}
