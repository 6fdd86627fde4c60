package console

import (
	"context"
	"errors"
	"slices"
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
	a.Overdue = 0
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
		"step": {Step: time.Millisecond}, "steps": {Steps: MaxAheadSteps + 1}, "by": {By: "owner"},
	} {
		_, err := c.Ahead(ctx, q)
		if wrong, ok := errors.AsType[*task.FieldError](err); !ok || wrong.Field != field {
			t.Errorf("%s: got %v", field, err)
		}
	}
}

// paces are measured rates by the minute's distance from the first one.
type paces struct {
	began time.Time
	asked []int
	rates map[int]float64
	err   error
}

func (p *paces) Pace(_ context.Context, from, to time.Time) (float64, error) {
	minute := int(from.Sub(p.began) / time.Minute)
	if p.asked = append(p.asked, minute); to.Sub(from) != time.Minute {
		return 0, errors.New("this is no minute")
	}
	return p.rates[minute], p.err
}

// Each minute of the last hour is measured once, and the highest rate counts for a day.
func TestPaceIsMeasuredOnce(t *testing.T) {
	t.Parallel()
	began := time.UnixMilli(1_800_000_000_000).UTC().Truncate(time.Minute)
	rows := &paces{began: began, rates: map[int]float64{-2: 7, -5: 1000, 3000: 2}}
	var p pace
	measured := func(after time.Duration, rate float64, minutes ...int) {
		t.Helper()
		rows.asked = nil
		got, err := p.measure(t.Context(), rows, began.Add(after))
		if err != nil || got != rate || !slices.Equal(rows.asked, minutes) {
			t.Errorf("after %v: %v a second, minutes %v, %v; want %v and %v", after, got, rows.asked, err, rate, minutes)
		}
	}
	measured(0, 7, -2, -3, -4)
	measured(time.Second, 1000, -5, -6, -7)
	rows.err = errors.New("away")
	if _, err := p.measure(t.Context(), rows, began); !errors.Is(err, rows.err) {
		t.Errorf("got %v", err)
	}
	rows.err = nil
	measured(time.Minute+time.Second, 1000, -1, -8, -9) // what failed is measured by another call
	for range 17 {
		_, err := p.measure(t.Context(), rows, began.Add(time.Minute))
		pipelinetest.Must(t, err)
	}
	measured(time.Minute, 1000)
	measured(3002*time.Minute, 2, 3000, 2999, 2998)
	if len(p.minutes) != 3 {
		t.Errorf("%d minutes are kept after a day, want 3", len(p.minutes))
	}
	if c := New(Config{}, nil, nil, nil); c.As("ann@host").pace != c.pace {
		t.Error("As made another pace")
	}
}
