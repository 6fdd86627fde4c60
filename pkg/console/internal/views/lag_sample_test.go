package views

import (
	"cmp"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// Few tasks are all read. Those that are not done, or not asked for, are left out.
func lagSample(t *testing.T, v Views) {
	g := newGenerator()
	rows := []task.Task{
		g.done(t0, 5*time.Millisecond),
		g.done(t0.Add(time.Minute), 2*time.Second),
		g.done(t0.Add(time.Minute), -time.Millisecond), // the effect came in the minute before
		g.done(t0.Add(time.Minute), time.Second),
		g.done(t0.Add(-time.Hour), 0), // before the steps
		g.done(t0.Add(2*time.Minute), 0),
		g.pending(t0),
	}
	rows[3].CreatedAt = rows[3].DueAt.Add(900 * time.Millisecond)
	rows[6].UpdatedAt = t0 // such as a task that was just made
	for i := range rows {
		rows[i].Kind, rows[i].Queue = string("abbbbbb"[i]), string("xxyxxxx"[i])
	}
	rows[1].Ran = protocol.Ran{Worker: 1, Taken: time.Minute, Handler: 12 * time.Millisecond}.Pack()
	write(t, v, len(rows), func(i int) task.Task { return rows[i] })
	first := DoneTask{Step: 0, Weight: 1, Lag: 5 * time.Millisecond}
	early := DoneTask{Step: 0, Weight: 1, Lag: -time.Millisecond, Early: true}
	late := DoneTask{Step: 1, Weight: 1, Lag: 2 * time.Second, Timed: true, Handler: 12 * time.Millisecond}
	made := DoneTask{Step: 1, Weight: 1, Lag: 100 * time.Millisecond}
	check := func() {
		t.Helper()
		for name, c := range map[string]struct {
			q    LagQuery
			want []DoneTask
		}{
			"all":         {LagQuery{}, []DoneTask{early, first, made, late}},
			"of a kind":   {LagQuery{Kind: "a"}, []DoneTask{first}},
			"of a queue":  {LagQuery{Queue: "x"}, []DoneTask{first, made, late}},
			"of both":     {LagQuery{Kind: "b", Queue: "y"}, []DoneTask{early}},
			"of no queue": {LagQuery{Queue: "z"}, nil},
		} {
			c.q.From, c.q.Step, c.q.Steps, c.q.Now = t0, time.Minute, 2, t0.Add(90*time.Second)
			got := value[[]DoneTask](t)(v.LagSample(t.Context(), c.q))
			slices.SortFunc(got, func(a, b DoneTask) int { return cmp.Compare(a.Lag, b.Lag) })
			if d := gocmp.Diff(c.want, got); d != "" {
				t.Errorf("%s (-want +got):\n%s", name, d)
			}
		}
	}
	check()
	for _, until := range []time.Time{t0.Add(time.Minute), t0.Add(time.Hour)} { // what is done stands in both tables, and in the other one
		archive(t, v, until)
		check()
	}
	nothing := LagQuery{From: t0.Add(time.Hour), Step: time.Minute, Steps: 2, Now: t0.Add(2 * time.Hour)}
	if got := value[[]DoneTask](t)(v.LagSample(t.Context(), nothing)); len(got) > 0 {
		t.Errorf("where nothing was done: %+v", got)
	}
	for _, steps := range []int{0, 161} {
		if _, err := v.LagSample(t.Context(), LagQuery{From: t0, Step: time.Minute, Steps: steps, Now: t0}); err == nil {
			t.Errorf("%d steps were read", steps)
		}
	}
}

// Ten minutes of 4,000 tasks each, 10 ms late; and 60,000 that were due at one moment of the fifth and took three seconds.
func TestLagOfManyTasks(t *testing.T) {
	t.Parallel()
	g := newGenerator()
	const steps, calm, crowd = 10, 4000, 60_000
	var rows []task.Task
	for i := range steps * calm {
		rows = append(rows, g.done(t0.Add(time.Duration(i)*time.Minute/calm), 10*time.Millisecond))
	}
	for i := range crowd {
		rows = append(rows, g.done(t0.Add(4*time.Minute), time.Duration(i)*3*time.Second/crowd))
	}
	onBoth(t, rows, func(t *testing.T, v Views) {
		for _, c := range []struct {
			q         LagQuery
			part      float64 // of the tasks
			tolerance float64
		}{
			{LagQuery{}, 1, 0.05},
			{LagQuery{Kind: "b"}, 0.3, 0.35},
			{LagQuery{Entries: 20_000}, 1, 0.2},
			{LagQuery{Entries: 20_000, Rows: 2000, Kind: "a"}, 0.7, 0.25},
		} {
			c.q.From, c.q.Step, c.q.Steps, c.q.Now = t0, time.Minute, steps, t0.Add(steps*time.Minute)
			got := value[[]DoneTask](t)(v.LagSample(t.Context(), c.q))
			if len(got) > 8000 {
				t.Errorf("%+v: %d rows were read", c.q, len(got))
			}
			tasks, median := figures(got, steps)
			for i := range steps {
				want, late := calm*c.part, 10*time.Millisecond
				if i == 4 {
					want, late = (calm+crowd)*c.part, 1400*time.Millisecond
				}
				if !about(tasks[i], want, c.tolerance) || !about(float64(median[i]), float64(late), 0.25) {
					t.Errorf("%+v: step %d: %.0f tasks, half of them up to %v late; want %.0f, %v", c.q, i, tasks[i], median[i], want, late)
				}
			}
		}
	})
}

// figures returns for each step how many tasks a sample stands for, and the median of their lag.
func figures(sample []DoneTask, steps int) (tasks []float64, median []time.Duration) {
	tasks, median = make([]float64, steps), make([]time.Duration, steps)
	slices.SortFunc(sample, func(a, b DoneTask) int { return cmp.Compare(a.Lag, b.Lag) })
	for _, d := range sample {
		tasks[d.Step] += d.Weight
	}
	seen := make([]float64, steps)
	for _, d := range sample {
		if seen[d.Step] += d.Weight; seen[d.Step] <= tasks[d.Step]/2 {
			median[d.Step] = d.Lag
		}
	}
	return tasks, median
}
