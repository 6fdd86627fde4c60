package console

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/duetime/duetime/pkg/console/internal/views"
	"github.com/duetime/duetime/pkg/task"
)

// How AheadQuery groups tasks.
const (
	ByKind  = "kind"
	ByQueue = "queue"
)

// maxAheadSteps bounds the steps of an AheadQuery.
const maxAheadSteps = 200

// AheadQuery asks for what is due in Steps steps of a length from a moment on, by "kind" or "queue".
type AheadQuery struct {
	From  time.Time     // zero: the beginning of the step that has begun
	Step  time.Duration // from a second on; default a minute
	Steps int           // 1 to 200; default 60
	By    string        // default ByKind
}

// AheadStep is what is due in one step: tasks by their next attempt.
type AheadStep struct {
	AtMs   int64            `json:"at_ms"`
	Tasks  int64            `json:"tasks"`
	Groups map[string]int64 `json:"groups"`
}

// Ahead is what is due in the next steps.
type Ahead struct {
	FromMs  int64       `json:"from_ms"`
	StepMs  int64       `json:"step_ms"`
	Steps   []AheadStep `json:"steps"`
	Overdue int64       `json:"overdue"` // tasks that are due for longer than the configuration's grace
	Cut     bool        `json:"cut"`     // some numbers of tasks are lower bounds
	Sampled bool        `json:"sampled"` // those of groups are estimates, by a sample

	Late map[string]LateGroup `json:"late,omitempty"` // what is overdue of each group

	// How many tasks a second workers ended while tasks waited for them: in the slowest and in the fastest such minute of the
	// last hour, and of the last day as far as this console has measured it. All three are 0 if no tasks waited.
	CapacityLow  float64 `json:"capacity_low"`
	CapacityHigh float64 `json:"capacity_high"`
	CapacityAtMs int64   `json:"capacity_at_ms"` // the newest of these minutes
}

// LateGroup is what is overdue of a kind or queue.
type LateGroup struct {
	Tasks    int64 `json:"tasks"`
	OldestMs int64 `json:"oldest_ms"` // the earliest time of a next attempt
}

// Ahead counts what is due in the next steps. It reads a bounded part of the rows: up to 200,000 tasks are counted in full. The
// capacity is measured on the way, each minute only once.
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
		FromMs: q.From.UnixMilli(), StepMs: q.Step.Milliseconds(), Overdue: read.Overdue, Cut: read.Cut, Sampled: read.Sampled,
		Steps: make([]AheadStep, len(read.Steps)),
	}
	for i, s := range read.Steps {
		a.Steps[i] = AheadStep{AtMs: a.FromMs + int64(i)*a.StepMs, Tasks: s.Tasks, Groups: s.Groups}
	}
	for name, late := range read.Late {
		if a.Late == nil {
			a.Late = map[string]LateGroup{}
		}
		a.Late[name] = LateGroup{late.Tasks, late.Oldest.UnixMilli()}
	}
	err = c.pace.measure(ctx, c.views, now)
	a.CapacityLow, a.CapacityHigh, a.CapacityAtMs = c.pace.capacity(now)
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
	case q.Steps < 1 || q.Steps > maxAheadSteps:
		return q, &task.FieldError{Field: "steps", Problem: fmt.Sprintf("must be 1 to %d", maxAheadSteps)}
	case q.By != ByKind && q.By != ByQueue:
		return q, &task.FieldError{Field: "by", Problem: "must be " + ByKind + " or " + ByQueue}
	}
	return q, nil
}

const maxStep = 24 * time.Hour
