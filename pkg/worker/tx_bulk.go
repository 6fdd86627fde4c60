package worker

import (
	"context"

	"github.com/duetime/duetime/pkg/task"
)

// Bulk makes an operation on many tasks, as schedule.Tx does. It commits with the handler's task.
func (t *Tx) Bulk(ctx context.Context, o task.Operation) (task.Operation, error) {
	return onTasks(ctx, t, func(ctx context.Context) (task.Operation, error) { return t.call.Changes().Bulk(ctx, o) })
}

// Operation reads an operation, as schedule.Tx does.
func (t *Tx) Operation(ctx context.Context, id task.ID) (task.Operation, error) {
	return onTasks(ctx, t, func(ctx context.Context) (task.Operation, error) { return t.call.Changes().Operation(ctx, id) })
}

// PauseOperation stops an operation until it is resumed, as schedule.Tx does.
func (t *Tx) PauseOperation(ctx context.Context, id task.ID) (task.Operation, error) {
	return onTasks(ctx, t, func(ctx context.Context) (task.Operation, error) { return t.call.Changes().PauseOperation(ctx, id) })
}

// ResumeOperation lets a paused operation go on, as schedule.Tx does.
func (t *Tx) ResumeOperation(ctx context.Context, id task.ID) (task.Operation, error) {
	return onTasks(ctx, t, func(ctx context.Context) (task.Operation, error) { return t.call.Changes().ResumeOperation(ctx, id) })
}

// CancelOperation ends an operation, as schedule.Tx does.
func (t *Tx) CancelOperation(ctx context.Context, id task.ID) (task.Operation, error) {
	return onTasks(ctx, t, func(ctx context.Context) (task.Operation, error) { return t.call.Changes().CancelOperation(ctx, id) })
}
