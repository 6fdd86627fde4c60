package console

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/duetime/duetime/pkg/console/internal/views"
	"github.com/duetime/duetime/pkg/task"
)

// How AheadQuery groups tasks.
const (
	ByKind  = "kind"
	ByQueue = "queue"
)

// MaxAheadSteps bounds the steps of an AheadQuery.
const MaxAheadSteps = 200

// AheadQuery asks for what is due in Steps steps of a length from a moment on, by "kind" or "queue".
type AheadQuery struct {
	From  time.Time     // zero: the beginning of the step that has begun
	Step  time.Duration // from a second on; default a minute
	Steps int           // 1 to MaxAheadSteps; default 60
	By    string        // default ByKind
}

// AheadStep is what is due in one step: tasks by their next attempt.
type AheadStep struct {
	AtMs   int64            `json:"at_ms"`
	Tasks  int64            `json:"tasks"`
	Groups map[string]int64 `json:"groups"` // about: by a sample where there are many tasks
}

// Ahead is what is due in the next steps.
type Ahead struct {
	FromMs  int64       `json:"from_ms"`
	StepMs  int64       `json:"step_ms"`
	Steps   []AheadStep `json:"steps"`
	Rate    float64     `json:"rate"`    // tasks a second that workers ended in the busiest minute that was measured; 0 if unknown
	Overdue int64       `json:"overdue"` // tasks that are due for longer than the configuration's grace
	Cut     bool        `json:"cut"`     // some numbers of tasks are lower bounds
}

// Ahead counts what is due in the next steps. It reads a bounded part of the rows: up to 200,000 tasks are counted in full. The
// rate is measured on the way, in up to three minutes of the last hour a call, and each minute only once.
func (c *Console) Ahead(ctx context.Context, q AheadQuery) (Ahead, error) {
	now, err := c.store.Now(ctx, nil)
	if err != nil {
		return Ahead{}, err
	}
	if q, err = q.complete(now); err != nil {
		return Ahead{}, err
	}
	read, err := c.views.Ahead(ctx, views.AheadQuery{
		From: q.From, Step: q.Step, Steps: q.Steps, By: q.By, Overdue: now.Add(-c.cfg.Grace),
	})
	if err != nil {
		return Ahead{}, err
	}
	a := Ahead{
		FromMs: q.From.UnixMilli(), StepMs: q.Step.Milliseconds(), Overdue: read.Overdue, Cut: read.Cut,
		Steps: make([]AheadStep, len(read.Steps)),
	}
	for i, s := range read.Steps {
		a.Steps[i] = AheadStep{AtMs: a.FromMs + int64(i)*a.StepMs, Tasks: s.Tasks, Groups: s.Groups}
	}
	a.Rate, err = c.pace.measure(ctx, c.views, now)
	return a, err
}

// complete checks the query and sets its defaults.
func (q AheadQuery) complete(now time.Time) (AheadQuery, error) {
	q.Step, q.Steps, q.By = cmp.Or(q.Step, time.Minute), cmp.Or(q.Steps, 60), cmp.Or(q.By, ByKind)
	if q.From.IsZero() {
		q.From = now.Truncate(q.Step)
	}
	switch {
	case q.Step < time.Second || q.Step > maxStep:
		return q, &task.FieldError{Field: "step", Problem: fmt.Sprintf("must be 1s to %v", maxStep)}
	case q.Steps < 1 || q.Steps > MaxAheadSteps:
		return q, &task.FieldError{Field: "steps", Problem: fmt.Sprintf("must be 1 to %d", MaxAheadSteps)}
	case q.By != ByKind && q.By != ByQueue:
		return q, &task.FieldError{Field: "by", Problem: "must be " + ByKind + " or " + ByQueue}
	}
	return q, nil
}

const (
	maxStep    = 24 * time.Hour
	paceSpan   = time.Hour       // minutes that are measured
	paceKept   = 24 * time.Hour  // how long a measured minute counts
	paceAtOnce = 3               // minutes that one call measures
	paceDelay  = 2 * time.Minute // from a minute's beginning: by then its late tasks have ended too
)

// pace keeps how fast workers were in minutes that were measured. All consoles that As makes of one share it.
type pace struct {
	mu      sync.Mutex
	minutes map[time.Time]float64
}

type paceRows interface {
	Pace(ctx context.Context, from, to time.Time) (float64, error)
}

// measure measures the newest minutes that were not measured before, and returns the highest rate.
func (p *pace) measure(ctx context.Context, rows paceRows, now time.Time) (float64, error) {
	claimed := p.claim(now)
	for i, minute := range claimed {
		rate, err := rows.Pace(ctx, minute, minute.Add(time.Minute))
		if err != nil {
			p.unclaim(claimed[i:])
			return 0, err
		}
		p.mu.Lock()
		p.minutes[minute] = rate
		p.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Max(append(slices.Collect(maps.Values(p.minutes)), 0)), nil
}

// claim returns minutes that the caller measures, the newest first, so that no other caller does. It forgets old ones.
func (p *pace) claim(now time.Time) (minutes []time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.minutes == nil {
		p.minutes = map[time.Time]float64{}
	}
	maps.DeleteFunc(p.minutes, func(m time.Time, _ float64) bool { return now.Sub(m) > paceKept })
	last := now.Add(-paceDelay).Truncate(time.Minute)
	for m := last; now.Sub(m) <= paceSpan && len(minutes) < paceAtOnce; m = m.Add(-time.Minute) {
		if _, measured := p.minutes[m]; !measured {
			p.minutes[m] = 0
			minutes = append(minutes, m)
		}
	}
	return minutes
}

// unclaim leaves minutes to later calls.
func (p *pace) unclaim(minutes []time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range minutes {
		delete(p.minutes, m)
	}
}
