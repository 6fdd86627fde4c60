package views

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// LagQuery asks for tasks that were done in some steps of time.
type LagQuery struct {
	From        time.Time
	Step        time.Duration
	Steps       int       // at most 160
	Now         time.Time // later moments of the last step are no part of it
	Kind, Queue string    // empty: all
	By          string    // what makes the groups: kind or queue; empty: nothing

	Entries, Rows int // bounds of what is read; default 90,000 entries of an index, and 4,000 rows
}

// DoneTask is a task of a sample.
type DoneTask struct {
	Step   int
	Weight float64       // for how many tasks it stands
	Lag    time.Duration // from the due time, or from when it was made if that was later, to its effect
	Early  bool          // the effect came before the due time

	Timed   bool          // its row says how long its handler took
	Handler time.Duration // the call of its handler
	Group   string        // its kind or queue
}

const (
	lagBudget    = 90_000 // index entries that one call counts
	maxLagSteps  = 160
	dividedSteps = 100 // fewer steps are divided, up to so many spans
	maxStepParts = 4   // of one step
	refinements  = 2   // how often spans are divided once more
	refined      = 3   // spans each time
	refinedParts = 16  // of each of these
)

// LagSample reads tasks that were done in the steps: all of them if they are few. Else each step is divided, and the rate of
// changes in each part, as far as it was counted, says for how many tasks one of them stands.
func (v Views) LagSample(ctx context.Context, q LagQuery) ([]DoneTask, error) {
	if q.Steps < 1 || q.Steps > maxLagSteps {
		return nil, fmt.Errorf("lag in %d steps can't be read", q.Steps)
	}
	var all []DoneTask
	for _, order := range changes {
		changed, err := v.countChanges(ctx, order, q)
		if err != nil {
			return nil, fmt.Errorf("read lag: %w", err)
		}
		done, err := v.readDone(ctx, order, changed, q)
		if err != nil {
			return nil, fmt.Errorf("read lag: %w", err)
		}
		all = append(all, done...)
	}
	return all, nil
}

// changedSpans are spans of a query's steps, and what was counted of them.
type changedSpans struct {
	spans  []span
	steps  []int // of each span
	counts []counted
}

func (c *changedSpans) add(step int, of span, parts int64) {
	length := of.to - of.from
	for i := range parts {
		c.spans = append(c.spans, span{of.from + length*i/parts, of.from + length*(i+1)/parts})
		c.steps = append(c.steps, step)
	}
}

// changes returns how many changes a span has: as counted, or as many as it has at the rate of the part that was counted.
func (c *changedSpans) changes(i int, now time.Time) float64 {
	in, n := c.spans[i], c.counts[i]
	if !n.cut {
		return float64(n.entries)
	}
	return float64(n.entries) * max(1, float64(min(in.to, now.UnixMilli()+1)-in.from)/float64(n.last-in.from+1))
}

// countChanges counts the changes of rows. Parts of what it may read are for the spans with most changes, if they could not be
// counted in full: they are divided once more, and so are their parts. Else many changes in a short time would seem to go on
// for the whole span.
func (v Views) countChanges(ctx context.Context, order indexOrder, q LagQuery) (*changedSpans, error) {
	budget := cmp.Or(q.Entries, lagBudget) / (1 + refinements)
	all := &changedSpans{}
	for step, of := range spansOf(q.From, q.Step, q.Steps) {
		all.add(step, of, int64(max(1, min(maxStepParts, dividedSteps/q.Steps))))
	}
	var err error
	if all.counts, err = v.countSpans(ctx, order, all.spans, budget); err != nil {
		return nil, err
	}
	for range refinements {
		finer := &changedSpans{}
		for _, i := range all.busiest(q.Now) {
			finer.add(all.steps[i], all.spans[i], refinedParts)
			all.counts[i] = counted{} // its parts have its rows
		}
		if finer.counts, err = v.countSpans(ctx, order, finer.spans, budget); err != nil {
			return nil, err
		}
		all.spans, all.steps = append(all.spans, finer.spans...), append(all.steps, finer.steps...)
		all.counts = append(all.counts, finer.counts...)
	}
	return all, nil
}

// busiest returns the spans with most changes among those that could not be counted in full.
func (c *changedSpans) busiest(now time.Time) []int {
	var cut []int
	for i, n := range c.counts {
		if n.cut {
			cut = append(cut, i)
		}
	}
	slices.SortFunc(cut, func(a, b int) int { return -cmp.Compare(c.changes(a, now), c.changes(b, now)) })
	return cut[:min(len(cut), refined)]
}

// sampleRows divides the rows that may be read among the steps, and those of a step among its spans by their changes: a step
// gets no more for having more spans.
func (c *changedSpans) sampleRows(q LagQuery) []int64 {
	steps, whole := make([]counted, q.Steps), make([]float64, q.Steps)
	for i, step := range c.steps {
		steps[step].entries += c.counts[i].entries
		whole[step] += c.changes(i, q.Now)
	}
	ofStep := sampleRows(steps, func(i int) float64 { return whole[i] }, int64(cmp.Or(q.Rows, sampleBudget)))
	rows := make([]int64, len(c.spans))
	for i, step := range c.steps {
		if rows[i] = c.counts[i].entries; ofStep[step] < steps[step].entries {
			rows[i] = min(rows[i], int64(math.Ceil(float64(ofStep[step])*c.changes(i, q.Now)/whole[step])))
		}
	}
	return rows
}

// lagRow is a row of a sample.
type lagRow struct {
	Span             int
	State            task.State
	Kind, Queue      string
	Due, Made, Ended int64
	Ran              int64
}

const lagColumns = "state, kind, queue, due_at AS due, created_at AS made, COALESCE(finished_at, 0) AS ended, ran"

// readDone reads the sample of each span, and keeps the rows that the query asks for. All rows of a sample stand for the span's
// changes together, whether or not they are kept.
func (v Views) readDone(ctx context.Context, order indexOrder, c *changedSpans, q LagQuery) ([]DoneTask, error) {
	rows := c.sampleRows(q)
	text, args := order.sampleSQL(v.Store.Dialect(), c.spans, c.counts, rows, lagColumns)
	if text == "" {
		return nil, nil
	}
	var sample []lagRow
	if err := v.Store.DB().SelectContext(ctx, &sample, text, args...); err != nil {
		return nil, err
	}
	read := make([]int, len(c.spans))
	for _, r := range sample {
		read[r.Span]++
	}
	var done []DoneTask
	for _, r := range sample {
		if r.State == task.Done && r.Ended > 0 && q.wants(r) {
			ran, timed := protocol.UnpackRan(r.Ran)
			done = append(done, DoneTask{
				Timed: timed, Handler: ran.Handler,
				Step: c.steps[r.Span], Weight: c.changes(r.Span, q.Now) / float64(read[r.Span]),
				Lag: time.Duration(r.Ended-max(r.Due, r.Made)) * time.Millisecond, Early: r.Ended < r.Due, Group: q.group(r),
			})
		}
	}
	return done, nil
}

func (q LagQuery) group(r lagRow) string {
	switch q.By {
	case "kind":
		return r.Kind
	case "queue":
		return r.Queue
	}
	return ""
}

func (q LagQuery) wants(r lagRow) bool {
	return (q.Kind == "" || r.Kind == q.Kind) && (q.Queue == "" || r.Queue == q.Queue)
}
