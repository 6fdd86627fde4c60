package console

import (
	"context"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// AheadQuery asks for what is due in Steps steps of a length from a moment on, by "kind" or "queue".
type AheadQuery struct {
	From  time.Time
	Step  time.Duration
	Steps int
	By    string
}

// AheadStep is what is due in one step. Groups is about, by sample.
type AheadStep struct {
	AtMs   int64            `json:"at_ms"`
	Tasks  int64            `json:"tasks"`
	Groups map[string]int64 `json:"groups"`
}

// Ahead is what is due. Rate: tasks a second in the busiest minute measured, 0 unknown; Cut: counts are lower bounds.
type Ahead struct {
	FromMs, StepMs int64
	Steps          []AheadStep
	Rate           float64
	Overdue        int64
	Cut            bool
}

// Ahead is a stub.
func (c *Console) Ahead(_ context.Context, q AheadQuery) (Ahead, error) {
	out := Ahead{FromMs: q.From.UnixMilli(), StepMs: q.Step.Milliseconds(), Rate: 1000, Overdue: 3}
	for i := range q.Steps {
		n := int64(i%7) * 100
		out.Steps = append(out.Steps, AheadStep{
			AtMs: q.From.Add(time.Duration(i) * q.Step).UnixMilli(), Tasks: n, Groups: map[string]int64{"stub": n},
		})
	}
	return out, nil
}

// LagQuery asks for the lag of the last Span, in steps.
type LagQuery struct {
	Span, Step  time.Duration
	Kind, Queue string
}

// LagStep is the lag of one step, in ms.
type LagStep struct {
	AtMs, Fired        int64
	P50, P90, P99, Max float64
	Early              int64
}

// LagBucket counts tasks with a lag of up to UpToMs.
type LagBucket struct {
	UpToMs float64
	Tasks  int64
}

// LagOver is the lag over time. Late: more than 1 s.
type LagOver struct {
	Steps   []LagStep
	Buckets []LagBucket
	Late    int64
	Fired   int64
}

// LagOver is a stub.
func (c *Console) LagOver(_ context.Context, q LagQuery) (LagOver, error) {
	out := LagOver{Fired: 1000, Late: 2, Buckets: []LagBucket{{1, 10}, {10, 900}, {100, 80}, {1000, 8}, {10_000, 2}}}
	begin := time.Now().Add(-q.Span)
	for i := range int(q.Span / q.Step) {
		out.Steps = append(out.Steps, LagStep{
			AtMs: begin.Add(time.Duration(i) * q.Step).UnixMilli(), Fired: 10, P50: 3, P90: 7, P99: 20, Max: float64(30 + i%5),
		})
	}
	return out, nil
}

// DeadGroup is a group of alike dead tasks. Error: with digits and ids replaced, so that alike errors are one group.
type DeadGroup struct {
	Kind, Error            string
	Tasks, FirstMs, LastMs int64
	Example                task.ID
}

// DeadGroups is a stub.
func (c *Console) DeadGroups(ctx context.Context, limit int) (groups []DeadGroup, cut bool, err error) {
	page, err := c.List(ctx, Filter{State: new(task.Dead), Limit: limit})
	for _, t := range page.Tasks {
		groups = append(groups, DeadGroup{t.Kind, t.LastError, 1, t.UpdatedAtMs, t.UpdatedAtMs, t.ID})
	}
	return groups, page.Next != "", err
}

// AuditQuery chooses lines.
type AuditQuery struct {
	Actor, Event, After string
	From, To            time.Time
	Limit               int
}

// AuditLine is what an operator did.
type AuditLine struct {
	AtMs                 int64
	Event, Actor, Detail string
	Task                 *task.ID
}

// AuditPage is a part of the list.
type AuditPage struct {
	Lines []AuditLine
	Next  string
}

// Audit is a stub.
func (c *Console) Audit(_ context.Context, q AuditQuery) (AuditPage, error) {
	return AuditPage{Lines: []AuditLine{{AtMs: 1, Event: task.EventPaused, Actor: "ann@stub", Detail: q.Actor}}}, nil
}

// alikeError is a stub.
func alikeError(text string) string { return text }
