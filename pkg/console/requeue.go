package console

import (
	"context"
	"fmt"

	"github.com/duetime/duetime/pkg/task"
)

// requeueRounds bounds the operations of one Requeue. Each leaves alone what workers hold for two seconds.
const requeueRounds = 10

// Requeued is the result of moving a kind's tasks to another queue.
type Requeued struct {
	Moved int `json:"moved"`
}

// Requeue has the daemon move the pending tasks of a kind to a queue of the deployment: from one queue, or from all others if
// from is empty. It waits for the operation. Workers hold some tasks and services schedule new ones, so it makes another operation
// until it finds no more. An error says what is left. An end of ctx ends the wait, not the operation.
func (c *Console) Requeue(ctx context.Context, kind, from, to string) (sum Requeued, err error) {
	if kind == "" { // a filter without a kind chooses all kinds
		return sum, &task.FieldError{Field: "kind", Problem: "must not be empty"}
	}
	o := task.Operation{Verb: task.VerbRequeue, To: to, Filter: task.Filter{Kind: kind, Queue: from}}
	for range requeueRounds {
		preview, err := c.PreviewBulk(ctx, o)
		if o.Matched = preview.Matched; err != nil || o.Matched == 0 {
			return sum, err
		}
		made, err := c.Bulk(ctx, o)
		if err == nil {
			made, err = c.AwaitOperation(ctx, made, nil)
		}
		sum.Moved += int(made.Changed)
		if err != nil {
			return sum, err
		}
	}
	return sum, fmt.Errorf("still more tasks of kind %s are found outside of queue %s: workers run them, or a service of before "+
		"schedules them; run this again", kind, to)
}
