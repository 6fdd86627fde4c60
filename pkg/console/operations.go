package console

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// Operation is an operation as operators see it.
type Operation struct {
	ID          task.ID             `json:"operation_id"`
	Verb        task.Verb           `json:"verb"`
	ByMs        int64               `json:"by_ms,omitempty"`
	To          string              `json:"to,omitempty"`
	Filter      task.Filter         `json:"filter"`
	Recurrences bool                `json:"recurrences,omitempty"` // of a shift: tasks of recurrences move too
	Undoes      task.ID             `json:"undoes,omitzero"`       // of a shift: the earlier one that it takes back
	Rate        int                 `json:"rate,omitempty"`
	Limit       int                 `json:"limit,omitempty"`
	State       task.OperationState `json:"state"`
	Matched     int64               `json:"matched"` // by the preview; 0: none was made
	Looked      int64               `json:"looked"`
	Changed     int64               `json:"changed"`
	Ended       int64               `json:"ended"`
	Unchanged   int64               `json:"left_alone"`
	Actor       string              `json:"actor"`
	Error       string              `json:"error,omitempty"`
	CreatedAtMs int64               `json:"created_at_ms"`
	UpdatedAtMs int64               `json:"updated_at_ms"`
	FinishedAt  *int64              `json:"finished_at_ms,omitempty"`

	Text string `json:"-"` // what it does, in words
	Left int64  `json:"-"` // of what the preview has counted
}

// OperationLife is an operation with its speed and its history.
type OperationLife struct {
	Operation

	PerSecond float64    `json:"per_second"` // tasks that it comes to now; 0 unless it was measured
	History   []Happened `json:"history"`
	Cut       bool       `json:"-"` // the history has older lines, which are left out
}

// Remaining returns how long the tasks that are left will take; 0 if that is not known.
func (l OperationLife) Remaining() time.Duration {
	if l.PerSecond <= 0 {
		return 0
	}
	return time.Duration(float64(l.Left) / l.PerSecond * float64(time.Second))
}

func operationOf(o task.Operation) Operation {
	return Operation{
		ID: o.ID, Verb: o.Verb, ByMs: o.By.Milliseconds(), To: o.To, Filter: o.Filter, Rate: o.Rate, Limit: o.Limit, State: o.State,
		Recurrences: o.Recurrences, Undoes: o.Undoes,
		Matched: o.Matched, Looked: o.Looked, Changed: o.Changed, Ended: o.Ended, Unchanged: o.Unchanged,
		Actor: o.Actor, Error: o.Error,
		CreatedAtMs: o.CreatedAt.UnixMilli(), UpdatedAtMs: o.UpdatedAt.UnixMilli(), FinishedAt: unixMs(o.FinishedAt),
		Text: o.String(), Left: o.Left(),
	}
}

// Preview is what an operation would change now.
type Preview struct {
	Matched int64  `json:"matched"`
	Sample  []Task `json:"sample"`
}

// PreviewBulk counts the tasks that an operation would change now, and shows some of them.
func (c *Console) PreviewBulk(ctx context.Context, o task.Operation) (Preview, error) {
	if err := c.checkBulk(ctx, o); err != nil {
		return Preview{}, err
	}
	n, rows, err := c.client.BulkPreview(ctx, o)
	p := Preview{Matched: n, Sample: make([]Task, len(rows))}
	for i, row := range rows {
		p.Sample[i] = TaskOf(row)
	}
	return p, err
}

// Bulk makes an operation, which the daemon carries out; see schedule.Tx.Bulk. The queue of a requeue must be one of the
// deployment's.
func (c *Console) Bulk(ctx context.Context, o task.Operation) (Operation, error) {
	if err := c.checkBulk(ctx, o); err != nil {
		return Operation{}, err
	}
	return c.changeOperation(ctx, func(tx *schedule.Tx) (task.Operation, error) { return tx.Bulk(ctx, o) })
}

func (c *Console) checkBulk(ctx context.Context, o task.Operation) error {
	if o.Verb != task.VerbRequeue {
		return nil
	}
	return c.CheckQueue(ctx, o.To)
}

// Operations reads the newest operations, in any state, the newest first.
func (c *Console) Operations(ctx context.Context) ([]Operation, error) {
	rows, err := c.client.Operations(ctx)
	all := make([]Operation, len(rows))
	for i, o := range rows {
		all[i] = operationOf(o)
	}
	return all, err
}

// UndoOf returns the operation that takes back a shift that is over, to be previewed and made: those tasks move back that the
// shift moved by all of its time, and that nothing has changed since. It answers task.ErrNoOperation.
func (c *Console) UndoOf(ctx context.Context, id task.ID) (task.Operation, error) {
	o, err := c.client.Operation(ctx, id)
	if err != nil {
		return task.Operation{}, err
	}
	return transition.UndoOperation(o)
}

// OnlyOperation returns the id of the operation that is running or paused, if there is one alone.
func (c *Console) OnlyOperation(ctx context.Context) (task.ID, error) {
	rows, err := c.client.Operations(ctx)
	var open []task.ID
	for _, o := range rows {
		if !o.Over() {
			open = append(open, o.ID)
		}
	}
	switch {
	case err != nil:
		return task.ID{}, err
	case len(open) == 0:
		return task.ID{}, fmt.Errorf("none is running or paused: %w", task.ErrNoOperation)
	case len(open) > 1:
		return task.ID{}, fmt.Errorf("%d operations are running or paused: say which", len(open))
	}
	return open[0], nil
}

// Operation reads an operation with its history. If the operation is running, the call waits for as long as measure says, to
// measure its speed; 0 measures nothing. It answers task.ErrNoOperation.
func (c *Console) Operation(ctx context.Context, id task.ID, measure time.Duration) (OperationLife, error) {
	o, err := c.client.Operation(ctx, id)
	if err != nil {
		return OperationLife{}, err
	}
	perSecond := 0.0
	if o.State == task.OperationRunning && measure > 0 {
		began, before := time.Now(), o
		loop.Sleep(ctx, measure)
		if o, err = c.client.Operation(ctx, id); err != nil {
			return OperationLife{}, err
		}
		perSecond = float64(came(o)-came(before)) / time.Since(began).Seconds()
	}
	lines, longer, err := c.history(ctx, id)
	if err != nil {
		return OperationLife{}, err
	}
	life := OperationLife{Operation: operationOf(o), PerSecond: perSecond, History: []Happened{}, Cut: longer}
	for _, e := range lines {
		life.History = append(life.History, happenedOf(e))
	}
	return life, nil
}

// operationPoll is how often AwaitOperation looks at its operation.
const operationPoll = 200 * time.Millisecond

// AwaitOperation waits until an operation no longer runs. One that is paused or stopped is an error. It calls progress, unless it is
// nil, with the number of tasks to which the operation has come. An end of ctx ends the wait, not the operation.
func (c *Console) AwaitOperation(ctx context.Context, o Operation, progress func(done int)) (Operation, error) {
	for o.State == task.OperationRunning {
		if loop.Sleep(ctx, operationPoll); ctx.Err() != nil {
			return o, fmt.Errorf("waiting given up, operation %s goes on: %w", o.ID, ctx.Err())
		}
		row, err := c.client.Operation(ctx, o.ID)
		if err != nil {
			return o, cmp.Or(ctx.Err(), err)
		}
		o = operationOf(row)
		advance(progress, int(came(row)))
	}
	if o.State != task.OperationDone {
		return o, fmt.Errorf("operation %s is %s: %s", o.ID, o.State, cmp.Or(o.Error, "by somebody's command"))
	}
	return o, nil
}

// came is to how many tasks the operation has come.
func came(o task.Operation) int64 { return o.Changed + o.Ended + o.Unchanged }

// PauseOperation pauses an operation. Its errors, and those of ResumeOperation and StopOperation, are those of schedule.Tx:
// task.ErrNoOperation, task.ErrOperationOver.
func (c *Console) PauseOperation(ctx context.Context, id task.ID) (Operation, error) {
	return c.changeOperation(ctx, func(tx *schedule.Tx) (task.Operation, error) { return tx.PauseOperation(ctx, id) })
}

// ResumeOperation ends the pause of an operation.
func (c *Console) ResumeOperation(ctx context.Context, id task.ID) (Operation, error) {
	return c.changeOperation(ctx, func(tx *schedule.Tx) (task.Operation, error) { return tx.ResumeOperation(ctx, id) })
}

// StopOperation ends an operation before its last task.
func (c *Console) StopOperation(ctx context.Context, id task.ID) (Operation, error) {
	return c.changeOperation(ctx, func(tx *schedule.Tx) (task.Operation, error) { return tx.CancelOperation(ctx, id) })
}

func (c *Console) changeOperation(ctx context.Context, fn func(tx *schedule.Tx) (task.Operation, error)) (Operation, error) {
	var changed task.Operation
	err := c.clientTx(ctx, func(tx *schedule.Tx) (err error) {
		changed, err = fn(tx)
		return err
	})
	if err != nil {
		return Operation{}, err
	}
	return operationOf(changed), nil
}
