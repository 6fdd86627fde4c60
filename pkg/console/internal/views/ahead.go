package views

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// AheadQuery asks for the pending tasks of some steps of time, by their run times.
type AheadQuery struct {
	From    time.Time
	Step    time.Duration
	Steps   int
	By      string    // what makes the groups: kind or queue
	Overdue time.Time // pending tasks with an earlier run time are overdue

	Entries, Rows int // bounds of what is read; default 200,000 entries of an index, and 4,000 rows
}

// Ahead is what is due.
type Ahead struct {
	Overdue int64
	Steps   []AheadStep
	Cut     bool // some of the numbers of tasks are lower bounds
}

// AheadStep is what is due in one step.
type AheadStep struct {
	Tasks  int64
	Groups map[string]int64 // about: by a sample where there are many tasks; nil if there are none
}

// Ahead counts the pending tasks of each step, and those that are overdue. However many there are, it reads no more than the
// query says.
func (v Views) Ahead(ctx context.Context, q AheadQuery) (Ahead, error) {
	if q.By != "kind" && q.By != "queue" || q.Steps < 1 || q.Steps >= maxSpans {
		return Ahead{}, fmt.Errorf("%d steps by %q can't be read", q.Steps, q.By)
	}
	spans := append(spansOf(q.From, q.Step, q.Steps), span{math.MinInt64, q.Overdue.UnixMilli()})
	counts, err := v.countSpans(ctx, byRunAt, spans, cmp.Or(q.Entries, countBudget))
	if err != nil {
		return Ahead{}, fmt.Errorf("read what is ahead: %w", err)
	}
	a := Ahead{
		Overdue: counts[q.Steps].entries, Steps: make([]AheadStep, q.Steps),
		Cut: slices.ContainsFunc(counts, func(c counted) bool { return c.cut }),
	}
	counts = counts[:q.Steps]
	groups, err := v.sampleGroups(ctx, spans, counts, q)
	if err != nil {
		return Ahead{}, fmt.Errorf("read groups of what is ahead: %w", err)
	}
	for i, c := range counts {
		a.Steps[i] = AheadStep{c.entries, scaled(groups[i], c.entries)}
	}
	return a, nil
}

// sampleGroups counts the rows of each span's sample by their group.
func (v Views) sampleGroups(
	ctx context.Context, spans []span, counts []counted, q AheadQuery,
) (map[int]map[string]int64, error) {
	groups := map[int]map[string]int64{}
	whole := func(i int) float64 { return float64(counts[i].entries) }
	rows := sampleRows(counts, whole, int64(cmp.Or(q.Rows, sampleBudget)))
	text, args := byRunAt.sampleSQL(v.Store.Dialect(), spans, counts, rows, q.By+" AS name")
	if text == "" {
		return groups, nil
	}
	var sample []struct {
		Span int
		Name string
	}
	if err := v.Store.DB().SelectContext(ctx, &sample, text, args...); err != nil {
		return nil, err
	}
	for _, r := range sample {
		if groups[r.Span] == nil {
			groups[r.Span] = map[string]int64{}
		}
		groups[r.Span][r.Name]++
	}
	return groups, nil
}

// scaled makes numbers of a whole out of those of its sample.
func scaled(sample map[string]int64, whole int64) map[string]int64 {
	rows := int64(0)
	for _, n := range sample {
		rows += n
	}
	for name, n := range sample {
		sample[name] = int64(math.Round(float64(n) * float64(whole) / float64(rows)))
	}
	return sample
}

const (
	paceBudget = 60_000 // index entries that Pace counts
	paceRows   = 400    // rows that it reads
	minPace    = 100    // tasks; fewer say nothing about how fast workers are
)

// Pace returns how many tasks a second workers ended when they were fastest, among the done tasks whose run times are in
// [from, to); 0 if these are fewer than 100. It reads some of them.
func (v Views) Pace(ctx context.Context, from, to time.Time) (float64, error) {
	spans := []span{{from.UnixMilli(), to.UnixMilli()}}
	counts, err := v.countSpans(ctx, doneByRunAt, spans, paceBudget)
	if err != nil || counts[0].entries < minPace {
		return 0, err
	}
	var sample []struct{ Span, Ended int64 }
	rows := []int64{min(counts[0].entries, paceRows)}
	text, args := doneByRunAt.sampleSQL(v.Store.Dialect(), spans, counts, rows, "COALESCE(finished_at, updated_at) AS ended")
	if err := v.Store.DB().SelectContext(ctx, &sample, text, args...); err != nil {
		return 0, fmt.Errorf("read when tasks were done: %w", err)
	}
	ends := make([]int64, len(sample))
	for i, r := range sample {
		ends[i] = r.Ended
	}
	slices.Sort(ends)
	return fastest(ends, counts[0].entries), nil
}

// fastest returns the highest number of ends a second while a quarter of the sorted ends came, or during a second if that is
// longer. Each end stands for an equal part of the tasks. A shorter time would show how the sample is scattered, not how fast
// workers are.
func fastest(ends []int64, tasks int64) float64 {
	if len(ends) == 0 {
		return 0
	}
	quarter, highest := (len(ends)+3)/4, 0.0
	for i := 0; i+quarter <= len(ends); i++ {
		took, rows := ends[i+quarter-1]-ends[i], quarter
		if took < 1000 {
			took = 1000
			rows, _ = slices.BinarySearch(ends[i:], ends[i]+took)
		}
		highest = max(highest, float64(rows)*1000/float64(took))
	}
	return highest * float64(tasks) / float64(len(ends))
}
