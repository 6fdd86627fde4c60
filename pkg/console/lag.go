package console

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/duetime/duetime/pkg/console/internal/views"
	"github.com/duetime/duetime/pkg/task"
)

// maxLagSteps bounds the steps of a LagQuery, besides the step that has begun.
const maxLagSteps = 150

// lateAfter is the lag from which a task counts as late.
const lateAfter = time.Second

// LagQuery asks how late tasks were over time.
type LagQuery struct {
	Span, Step  time.Duration // how far back, by default an hour; and in which steps, from a second on, by default a minute
	Kind, Queue string        // empty: all
}

// LagOver is how late tasks were in a span of time, from the due time to the effect. Where there are many tasks, its figures
// come from a sample of some thousand of them.
type LagOver struct {
	Steps   []LagStep   `json:"steps"` // the last one has just begun
	Buckets []LagBucket `json:"buckets"`
	Late    int64       `json:"late"` // by more than 1 s
	Fired   int64       `json:"fired"`
	P50     float64     `json:"p50"` // of all steps together, in milliseconds
	P99     float64     `json:"p99"`
	Max     float64     `json:"max"`
}

// LagStep is how late tasks were in one step.
type LagStep struct {
	AtMs  int64   `json:"at_ms"`
	Fired int64   `json:"fired"` // tasks done
	P50   float64 `json:"p50"`   // in milliseconds, as all of these; 0 if none was done
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
	Early int64   `json:"early"` // effects before the due time among those that were read: there may be none, ever
}

// LagBucket counts tasks whose lag is above the bucket before and at most UpToMs. Early ones stand in the first bucket.
type LagBucket struct {
	UpToMs float64 `json:"up_to_ms"`
	Tasks  int64   `json:"tasks"`
}

// LagOver reads how late tasks were, up to now. It reads a bounded part of the rows.
func (c *Console) LagOver(ctx context.Context, q LagQuery) (LagOver, error) {
	q.Span, q.Step = cmp.Or(q.Span, time.Hour), cmp.Or(q.Step, time.Minute)
	switch {
	case q.Step < time.Second || q.Step > maxStep:
		return LagOver{}, &task.FieldError{Field: "step", Problem: fmt.Sprintf("must be 1s to %v", maxStep)}
	case q.Span < q.Step || q.Span > maxLagSteps*q.Step:
		return LagOver{}, &task.FieldError{Field: "span", Problem: fmt.Sprintf("must be 1 to %d steps", maxLagSteps)}
	}
	now, err := c.store.Now(ctx, nil)
	if err != nil {
		return LagOver{}, err
	}
	from := now.Add(-q.Span).Truncate(q.Step)
	steps := int(now.Sub(from)/q.Step) + 1
	done, err := c.views.LagSample(ctx, views.LagQuery{
		From: from, Step: q.Step, Steps: steps, Now: now, Kind: q.Kind, Queue: q.Queue,
	})
	if err != nil {
		return LagOver{}, err
	}
	return lagOver(from, q.Step, steps, done), nil
}

// lagOver makes the figures of a sample.
func lagOver(from time.Time, step time.Duration, steps int, done []views.DoneTask) LagOver {
	slices.SortFunc(done, func(a, b views.DoneTask) int { return cmp.Compare(a.Lag, b.Lag) })
	of := make([][]views.DoneTask, steps)
	late := 0.0
	for _, d := range done {
		of[d.Step] = append(of[d.Step], d)
		if d.Lag > lateAfter {
			late += d.Weight
		}
	}
	all := lagStep(0, done)
	over := LagOver{
		Steps: make([]LagStep, steps), Buckets: buckets(done), Late: rounded(late), Fired: all.Fired,
		P50: all.P50, P99: all.P99, Max: all.Max,
	}
	for i := range over.Steps {
		over.Steps[i] = lagStep(from.Add(time.Duration(i)*step).UnixMilli(), of[i])
	}
	return over
}

// lagStep makes the figures of tasks that are sorted by lag.
func lagStep(at int64, done []views.DoneTask) LagStep {
	s := LagStep{AtMs: at}
	whole := 0.0
	for _, d := range done {
		if whole += d.Weight; d.Early {
			s.Early++
		}
	}
	if len(done) > 0 {
		s.Fired = rounded(whole)
		s.P50, s.P90, s.P99 = percentile(done, whole*0.50), percentile(done, whole*0.90), percentile(done, whole*0.99)
		s.Max = inMs(done[len(done)-1].Lag)
	}
	return s
}

// percentile returns the lag of the task with which the weights of sorted tasks reach a rank.
func percentile(sorted []views.DoneTask, rank float64) float64 {
	const rounding = 1e-9 // weights are sums of fractions
	for _, d := range sorted {
		if rank -= d.Weight; rank <= rounding {
			return inMs(d.Lag)
		}
	}
	return inMs(sorted[len(sorted)-1].Lag)
}

// buckets counts sorted tasks up to 1, 2, 5, 10, 20, 50 ms and so on, as far as their lag goes.
func buckets(sorted []views.DoneTask) []LagBucket {
	all := []LagBucket{}
	for decade := 1.0; len(sorted) > 0; decade *= 10 {
		for _, mantissa := range []float64{1, 2, 5} {
			if len(sorted) == 0 {
				break
			}
			bound, weight := mantissa*decade, 0.0
			for ; len(sorted) > 0 && inMs(sorted[0].Lag) <= bound; sorted = sorted[1:] {
				weight += sorted[0].Weight
			}
			all = append(all, LagBucket{UpToMs: bound, Tasks: rounded(weight)})
		}
	}
	return all
}

func rounded(weight float64) int64 { return int64(math.Round(weight)) }

func inMs(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
