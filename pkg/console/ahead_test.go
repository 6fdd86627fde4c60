package console

import (
	"errors"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// due makes a task that is due this long after a moment, and was made a minute earlier.
func (w *world) due(now time.Time, in time.Duration, opts ...task.Option) task.Task {
	w.t.Helper()
	row := w.pending(opts...)
	at := now.Add(in).UnixMilli()
	w.store.Exec("UPDATE duetime_tasks SET due_at = ?, run_at = ?, created_at = ? WHERE id = ?", at, at, at-60_000, row.ID[:])
	return w.store.Row(row.ID)
}

func TestAhead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	c := w.console()
	c.cfg.Grace = 5 * time.Second
	now, err := w.store.Now(ctx, nil)
	pipelinetest.Must(t, err)
	from := now.Truncate(time.Hour).Add(time.Hour)
	w.due(now, -time.Hour)
	w.due(now, -time.Second) // not overdue yet, unless the test is slow
	w.due(from, 0)
	w.due(from, time.Hour-time.Millisecond)
	w.due(from, time.Hour)
	a, err := c.Ahead(ctx, AheadQuery{From: from, Step: time.Hour, Steps: 3})
	pipelinetest.Must(t, err)
	if a.Overdue < 1 || a.Overdue > 2 {
		t.Errorf("%d tasks are overdue, want 1", a.Overdue)
	}
	if late := a.Late["meal"]; late.Tasks != a.Overdue || late.OldestMs != now.Add(-time.Hour).UnixMilli() {
		t.Errorf("late is %+v, want what is overdue, since an hour", a.Late)
	}
	a.Overdue, a.Late = 0, nil
	step := time.Hour.Milliseconds()
	diff(t, "ahead", Ahead{FromMs: from.UnixMilli(), StepMs: step, Steps: []AheadStep{
		{from.UnixMilli(), 2, map[string]int64{"meal": 2}},
		{from.UnixMilli() + step, 1, map[string]int64{"meal": 1}},
		{from.UnixMilli() + 2*step, 0, nil},
	}}, a)
	a, err = c.Ahead(ctx, AheadQuery{By: ByQueue, Steps: 200})
	pipelinetest.Must(t, err)
	if a.StepMs != 60_000 || len(a.Steps) != 200 || a.FromMs%60_000 != 0 || a.FromMs > time.Now().UnixMilli()+5000 {
		t.Errorf("by default from %d, %d steps of %d ms", a.FromMs, len(a.Steps), a.StepMs)
	}
	for _, s := range a.Steps {
		if s.Tasks != s.Groups["default"] {
			t.Errorf("got the step %+v, want all in the queue default", s)
		}
	}
	for field, q := range map[string]AheadQuery{
		"step": {Step: time.Millisecond}, "steps": {Steps: maxAheadSteps + 1}, "by": {By: "owner"},
	} {
		_, err := c.Ahead(ctx, q)
		if wrong, ok := errors.AsType[*task.FieldError](err); !ok || wrong.Field != field {
			t.Errorf("%s: got %v", field, err)
		}
	}
}
