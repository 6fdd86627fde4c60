package views

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/migrations"
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
	late := Late{1, t0.Add(-time.Hour)}
	want := Ahead{Overdue: 1, Late: map[string]Late{"a": late}, Steps: []AheadStep{
		{1, map[string]int64{"a": 1}}, {1, map[string]int64{"b": 1}}, {1, map[string]int64{"b": 1}},
	}}
	if d := cmp.Diff(want, value[Ahead](t)(v.Ahead(t.Context(), q))); d != "" {
		t.Errorf("by kind (-want +got):\n%s", d)
	}
	q.By, q.Steps, q.Step = "queue", 2, 3*time.Minute
	want.Late = map[string]Late{"r": late}
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
		if got.Cut || !got.Sampled || got.Overdue != 0 {
			t.Errorf("cut %v, sampled %v, %d overdue", got.Cut, got.Sampled, got.Overdue)
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

// While a snapshot is kept, the count of what is overdue does not step over the entries of the tasks that ended since. A server doesn't
// count such entries, but the pages on which they are.
func TestAheadBeginsAtTheFloor(t *testing.T) {
	t.Parallel()
	s := value[*store.Store](t)(store.Open(pipelinetest.OwnMySQL(t).NewSchema(t), store.Options{}))
	t.Cleanup(func() { pipelinetest.Must(t, s.Close()) })
	pipelinetest.Must(t, s.Migrate(t.Context(), migrations.Files, "test", 16))
	v, g := Views{s}, newGenerator()
	now := value[time.Time](t)(s.Clock(t.Context()))
	worldtest.HoldSnapshot(t, s)
	const ended = 10_000
	write(t, v, ended, func(i int) task.Task { return g.pending(now.Add(-time.Hour + time.Duration(i)*time.Minute/ended)) })
	pipelinetest.Must(t, exec(v, "UPDATE duetime_tasks SET state = 1, finished_at = ?", now.UnixMilli()))
	value[time.Time](t)(s.Floor(t.Context()))
	whole := worldtest.PagesRead(t, s, func() {
		value[[]counted](t)(v.countSpans(t.Context(), byRunAt, []span{{math.MinInt64, now.UnixMilli()}}, countBudget))
	})
	ahead := worldtest.PagesRead(t, s, func() {
		value[Ahead](t)(v.Ahead(t.Context(), AheadQuery{From: now, Step: time.Minute, Steps: 1, By: "kind", Overdue: now}))
	})
	t.Logf("pages read: %d from the first row, %d for what is ahead", whole, ahead)
	if ahead > whole/2 {
		t.Errorf("what is ahead takes %d pages, the first row %d: it steps over what ended", ahead, whole)
	}
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
