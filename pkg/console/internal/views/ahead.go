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
	Late    map[string]Late // by group, of those that are overdue; about, where there are many
	Steps   []AheadStep
	Cut     bool // some of the numbers of tasks are lower bounds
	Sampled bool // those of groups are estimates
}

// Late is what is overdue of a group.
type Late struct {
	Tasks  int64
	Oldest time.Time // the earliest run time
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
	overdue := span{math.MinInt64, q.Overdue.UnixMilli()}
	floor, err := v.Store.Floor(ctx) // below it nothing is pending; the entries of what has ended stand there while a snapshot is kept
	if err != nil {
		return Ahead{}, fmt.Errorf("read what is ahead: %w", err)
	}
	if !floor.IsZero() {
		overdue.from = floor.UnixMilli()
	}
	spans := append(spansOf(q.From, q.Step, q.Steps), overdue)
	counts, err := v.countSpans(ctx, byRunAt, spans, cmp.Or(q.Entries, countBudget))
	if err != nil {
		return Ahead{}, fmt.Errorf("read what is ahead: %w", err)
	}
	a := Ahead{
		Overdue: counts[q.Steps].entries, Steps: make([]AheadStep, q.Steps),
		Cut: slices.ContainsFunc(counts, func(c counted) bool { return c.cut }),
	}
	groups, oldest, err := v.sampleGroups(ctx, spans, counts, q)
	if err != nil {
		return Ahead{}, fmt.Errorf("read groups of what is ahead: %w", err)
	}
	entries := int64(0)
	for _, c := range counts {
		entries += c.entries
	}
	a.Sampled = entries > int64(cmp.Or(q.Rows, sampleBudget))
	for i, c := range counts[:q.Steps] {
		a.Steps[i] = AheadStep{c.entries, scaled(groups[i], c.entries)}
	}
	if a.Overdue > 0 {
		a.Late = map[string]Late{}
	}
	for name, n := range scaled(groups[q.Steps], a.Overdue) {
		a.Late[name] = Late{n, time.UnixMilli(oldest[name])}
	}
	return a, nil
}

// sampleGroups counts the rows of each span's sample by their group, and tells the earliest row of each group.
func (v Views) sampleGroups(
	ctx context.Context, spans []span, counts []counted, q AheadQuery,
) (groups map[int]map[string]int64, oldest map[string]int64, err error) {
	groups, oldest = map[int]map[string]int64{}, map[string]int64{}
	whole := func(i int) float64 { return float64(counts[i].entries) }
	rows := sampleRows(counts, whole, int64(cmp.Or(q.Rows, sampleBudget)))
	text, args := byRunAt.sampleSQL(v.Store.Dialect(), spans, counts, rows, q.By+" AS name, run_at AS ran")
	if text == "" {
		return groups, oldest, nil
	}
	var sample []struct {
		Span int
		Name string
		Ran  int64
	}
	if err := v.Store.DB().SelectContext(ctx, &sample, text, args...); err != nil {
		return nil, nil, err
	}
	for _, r := range sample {
		if at, known := oldest[r.Name]; !known || r.Ran < at {
			oldest[r.Name] = r.Ran
		}
		if groups[r.Span] == nil {
			groups[r.Span] = map[string]int64{}
		}
		groups[r.Span][r.Name]++
	}
	return groups, oldest, nil
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
