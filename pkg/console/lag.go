package console

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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
	By          string        // ByKind or ByQueue: the figures of each of these are returned too
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
	Sampled bool        `json:"sampled"` // all of these are estimates

	// How long handlers took. One that changes many tasks at once takes the time of its call for each of them.
	Timed      int64   `json:"timed"`       // of the fired ones, those whose handler's time is known
	HandlerP50 float64 `json:"handler_p50"` // of these, in milliseconds; exact to 1 ms below 16 ms, and to about 6 % from there on
	HandlerP99 float64 `json:"handler_p99"`

	Groups map[string]LagOver `json:"groups,omitempty"` // by kind or queue, if the query asks for them; the 50 with most tasks
}

// LagStep is how late tasks were in one step.
type LagStep struct {
	AtMs  int64   `json:"at_ms"`
	Fired int64   `json:"fired"` // tasks done
	P50   float64 `json:"p50"`   // in milliseconds, as all of these; 0 if none was done
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
	Late  int64   `json:"late"`  // by more than 1 s
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
	case q.By != "" && q.By != ByKind && q.By != ByQueue:
		return LagOver{}, &task.FieldError{Field: "by", Problem: "must be " + ByKind + " or " + ByQueue}
	}
	now, err := c.store.Now(ctx, nil)
	if err != nil {
		return LagOver{}, err
	}
	from := now.Add(-q.Span).Truncate(q.Step)
	steps := int(now.Sub(from)/q.Step) + 1
	done, err := c.views.LagSample(ctx, views.LagQuery{
		From: from, Step: q.Step, Steps: steps, Now: now, Kind: q.Kind, Queue: q.Queue, By: q.By,
	})
	if err != nil {
		return LagOver{}, err
	}
	over := lagOver(from, q.Step, steps, done)
	if q.By != "" {
		over.Groups = map[string]LagOver{}
		for name, done := range largest(done) {
			over.Groups[name] = lagOver(from, q.Step, steps, done)
		}
	}
	return over, nil
}

// lagOver makes the figures of a sample.
func lagOver(from time.Time, step time.Duration, steps int, done []views.DoneTask) LagOver {
	slices.SortFunc(done, func(a, b views.DoneTask) int { return cmp.Compare(a.Lag, b.Lag) })
	of := make([][]views.DoneTask, steps)
	for _, d := range done {
		of[d.Step] = append(of[d.Step], d)
	}
	all := lagStep(0, done)
	over := LagOver{
		Steps: make([]LagStep, steps), Buckets: buckets(done), Late: all.Late, Fired: all.Fired,
		P50: all.P50, P99: all.P99, Max: all.Max,
		Sampled: slices.ContainsFunc(done, func(d views.DoneTask) bool { return d.Weight > 1 }),
	}
	over.timeHandlers(done)
	for i := range over.Steps {
		over.Steps[i] = lagStep(from.Add(time.Duration(i)*step).UnixMilli(), of[i])
	}
	return over
}

// lagStep makes the figures of tasks that are sorted by lag.
func lagStep(at int64, done []views.DoneTask) LagStep {
	s := LagStep{AtMs: at}
	whole, late := 0.0, 0.0
	for _, d := range done {
		whole += d.Weight
		if d.Early {
			s.Early++
		}
		if d.Lag > lateAfter {
			late += d.Weight
		}
	}
	if len(done) > 0 {
		s.Fired, s.Late = rounded(whole), rounded(late)
		s.P50, s.P90, s.P99 = percentile(done, whole*0.50, lagOfDone), percentile(done, whole*0.90, lagOfDone), percentile(done, whole*0.99, lagOfDone)
		s.Max = inMs(done[len(done)-1].Lag)
	}
	return s
}

func lagOfDone(d views.DoneTask) time.Duration     { return d.Lag }
func handlerOfDone(d views.DoneTask) time.Duration { return d.Handler }

// percentile returns what of the task with which the weights of tasks, sorted by it, reach a rank.
func percentile(sorted []views.DoneTask, rank float64, what func(views.DoneTask) time.Duration) float64 {
	const rounding = 1e-9 // weights are sums of fractions
	for _, d := range sorted {
		if rank -= d.Weight; rank <= rounding {
			return inMs(what(d))
		}
	}
	return inMs(what(sorted[len(sorted)-1]))
}

// maxGroups bounds the groups that an answer has: rows of other programs may have any number of kinds.
const maxGroups = 50

// largest returns the groups with most tasks.
func largest(done []views.DoneTask) map[string][]views.DoneTask {
	of, weights := map[string][]views.DoneTask{}, map[string]float64{}
	for _, d := range done {
		of[d.Group] = append(of[d.Group], d)
		weights[d.Group] += d.Weight
	}
	names := slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Or(cmp.Compare(weights[b], weights[a]), cmp.Compare(a, b)) })
	for _, name := range names[min(len(names), maxGroups):] {
		delete(of, name)
	}
	return of
}

// timeHandlers makes the figures of the handlers.
func (l *LagOver) timeHandlers(done []views.DoneTask) {
	timed := slices.DeleteFunc(slices.Clone(done), func(d views.DoneTask) bool { return !d.Timed })
	if len(timed) == 0 {
		return
	}
	slices.SortFunc(timed, func(a, b views.DoneTask) int { return cmp.Compare(a.Handler, b.Handler) })
	whole := weigh(timed)
	l.Timed = rounded(whole)
	l.HandlerP50, l.HandlerP99 = percentile(timed, whole*0.50, handlerOfDone), percentile(timed, whole*0.99, handlerOfDone)
}

func weigh(done []views.DoneTask) (whole float64) {
	for _, d := range done {
		whole += d.Weight
	}
	return whole
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
