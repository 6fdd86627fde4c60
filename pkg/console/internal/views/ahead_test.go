package views

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/pkg/task"
)

// Few tasks are counted exactly: pending ones alone, each in the step of its run time, by kind or queue.
func ahead(t *testing.T, v Views) {
	g := newGenerator()
	rows := []task.Task{
		g.pending(t0.Add(-time.Hour)), g.pending(t0.Add(-time.Second)), g.pending(t0), g.pending(t0.Add(59 * time.Second)),
		g.pending(t0.Add(time.Minute)), g.pending(t0.Add(3 * time.Minute)), g.done(t0, time.Second),
	}
	for i := range rows {
		rows[i].Kind, rows[i].Queue = string("ababbcc"[i]), string("rrrqrrq"[i])
	}
	rows[3].RunAt = t0.Add(2 * time.Minute) // waits for its retry
	write(t, v, len(rows), func(i int) task.Task { return rows[i] })
	q := AheadQuery{From: t0, Step: time.Minute, Steps: 3, By: "kind", Overdue: t0.Add(-time.Second)}
	want := Ahead{Overdue: 1, Steps: []AheadStep{
		{1, map[string]int64{"a": 1}}, {1, map[string]int64{"b": 1}}, {1, map[string]int64{"b": 1}},
	}}
	if d := cmp.Diff(want, value[Ahead](t)(v.Ahead(t.Context(), q))); d != "" {
		t.Errorf("by kind (-want +got):\n%s", d)
	}
	q.By, q.Steps, q.Step = "queue", 2, 3*time.Minute
	want.Steps = []AheadStep{{3, map[string]int64{"q": 1, "r": 2}}, {1, map[string]int64{"r": 1}}}
	if d := cmp.Diff(want, value[Ahead](t)(v.Ahead(t.Context(), q))); d != "" {
		t.Errorf("by queue (-want +got):\n%s", d)
	}
	q.From = t0.Add(time.Hour)
	want.Steps = []AheadStep{{}, {}}
	if d := cmp.Diff(want, value[Ahead](t)(v.Ahead(t.Context(), q))); d != "" {
		t.Errorf("where nothing is due (-want +got):\n%s", d)
	}
	for _, wrong := range []AheadQuery{{By: "payload", Steps: 1}, {By: "kind"}, {By: "kind", Steps: 1000}} {
		if _, err := v.Ahead(t.Context(), wrong); err == nil {
			t.Errorf("%+v was read", wrong)
		}
	}
}

// Ten minutes of 4,000 tasks each, and 60,000 at one moment of the fifth.
func TestAheadOfManyTasks(t *testing.T) {
	t.Parallel()
	g := newGenerator()
	const steps, calm, crowd = 10, 4000, 60_000
	var rows []task.Task
	plain := make([]AheadStep, steps)
	for i := range steps*calm + crowd {
		at := t0.Add(time.Duration(i) * steps * time.Minute / (steps * calm))
		if i >= steps*calm {
			at = t0.Add(4 * time.Minute)
		}
		row := g.pending(at)
		if i > steps*calm+crowd/2 { // the second half was made later
			row.Kind = "b"
		}
		rows = append(rows, row)
		step := &plain[at.Sub(t0)/time.Minute]
		if step.Tasks++; step.Groups == nil {
			step.Groups = map[string]int64{}
		}
		step.Groups[row.Kind]++
	}
	q := AheadQuery{From: t0, Step: time.Minute, Steps: steps, By: "kind", Overdue: t0}
	onBoth(t, rows, func(t *testing.T, v Views) {
		got := value[Ahead](t)(v.Ahead(t.Context(), q))
		if got.Cut || got.Overdue != 0 {
			t.Errorf("cut %v, %d overdue", got.Cut, got.Overdue)
		}
		for i, want := range plain {
			if got.Steps[i].Tasks != want.Tasks {
				t.Errorf("step %d: %d tasks, want %d", i, got.Steps[i].Tasks, want.Tasks)
			}
			for kind, n := range want.Groups {
				if !about(float64(got.Steps[i].Groups[kind]), float64(n), 0.3) {
					t.Errorf("step %d: %d of kind %s, want about %d", i, got.Steps[i].Groups[kind], kind, n)
				}
			}
		}
		lowerBounds(t, v, q, plain)
	})
}

// With a budget that is too small the numbers are lower bounds, and no more entries than the budget says are counted.
func lowerBounds(t *testing.T, v Views, q AheadQuery, plain []AheadStep) {
	t.Helper()
	q.Entries = 50_000 // 4,545 for each step and for overdue tasks; then 9,455 for the step of the crowd
	got := value[Ahead](t)(v.Ahead(t.Context(), q))
	for i, want := range plain {
		bound := want.Tasks
		if i == 4 {
			bound = 9455
		}
		if n := got.Steps[i].Tasks; n != bound {
			t.Errorf("step %d with a small budget: %d tasks, want %d of %d", i, n, bound, want.Tasks)
		}
	}
	if !got.Cut {
		t.Error("the result of a small budget is not cut")
	}
}

// Even work is measured over a quarter of it, a burst over a second.
func TestFastest(t *testing.T) {
	t.Parallel()
	spread := func(n int, over time.Duration) (ends []int64) {
		for i := range n {
			ends = append(ends, int64(i)*over.Milliseconds()/int64(n))
		}
		return ends
	}
	for name, c := range map[string]struct {
		ends  []int64
		tasks int64
		want  float64
	}{
		"evenly over a minute":      {spread(400, time.Minute), 6000, 100},
		"all in three seconds":      {spread(400, 3*time.Second), 140_000, 46_667},
		"all at one moment":         {make([]int64, 100), 100, 100},
		"a burst among even ones":   {append(make([]int64, 200), spread(200, time.Minute)...), 400, 200},
		"none, for all were purged": {nil, 100, 0},
	} {
		slices.Sort(c.ends)
		if got := fastest(c.ends, c.tasks); !about(got, c.want, 0.03) {
			t.Errorf("%s: %.0f a second, want %.0f", name, got, c.want)
		}
	}
}

// 96,000 tasks of a minute, 90,000 of them at once, which the workers ended within two seconds.
func TestPace(t *testing.T) {
	t.Parallel()
	g := newGenerator()
	const crowd, calm = 90_000, 6000
	var rows []task.Task
	for i := range crowd {
		rows = append(rows, g.done(t0, time.Duration(i)*2*time.Second/crowd))
	}
	for i := range calm {
		rows = append(rows, g.done(t0.Add(time.Duration(i)*time.Minute/calm), time.Millisecond))
	}
	for i := range 3000 {
		rows = append(rows, g.done(t0.Add(time.Minute+time.Duration(i)*time.Minute/3000), time.Millisecond))
	}
	rows = append(rows, g.done(t0.Add(2*time.Minute), 0), g.pending(t0.Add(2*time.Minute)))
	onBoth(t, rows, func(t *testing.T, v Views) {
		for i, want := range []struct{ low, high float64 }{
			{20_000, 47_000}, // 60,000 are counted
			{45, 75},
			{0, 0}, // too few
		} {
			from := t0.Add(time.Duration(i) * time.Minute)
			got := value[float64](t)(v.Pace(t.Context(), from, from.Add(time.Minute)))
			if got < want.low || got > want.high {
				t.Errorf("minute %d: %.0f a second, want %.0f to %.0f", i, got, want.low, want.high)
			}
		}
	})
}
