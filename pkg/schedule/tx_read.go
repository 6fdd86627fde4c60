package schedule

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// rowReader is what reading needs of the store. q is the transaction; nil: a connection of its own.
type rowReader interface {
	// Get reads rows without locking.
	Get(ctx context.Context, q sqlx.QueryerContext, ids []task.ID) ([]task.Task, error)
	// ListOwner reads the owner's pending rows without locking, by run_at.
	ListOwner(ctx context.Context, q sqlx.QueryerContext, owner, kind string) ([]task.Task, error)
}

// Get reads the task, in any state, without locking it: by the time of the next statement it may have changed. It answers
// task.ErrNotFound.
func (t *Tx) Get(ctx context.Context, id task.ID) (task.Task, error) {
	ctx, err := t.forTasks(ctx)
	if err != nil {
		return task.Task{}, err
	}
	return getOne(ctx, t.rows, t.db, id)
}

func getOne(ctx context.Context, from rowReader, q sqlx.QueryerContext, id task.ID) (task.Task, error) {
	found, err := from.Get(ctx, q, []task.ID{id})
	if err != nil {
		return task.Task{}, fmt.Errorf("get task %s: %w", id, err)
	}
	if len(found) == 0 {
		return task.Task{}, fmt.Errorf("get %s: %w", id, task.ErrNotFound)
	}
	return found[0], nil
}

// Get is Tx.Get outside of a transaction: it reads the task as committed. It answers task.ErrNotFound if no task has the id, or
// none any more: a task that has ended is kept until its retention ends (daemon.retention).
func (c *Client) Get(ctx context.Context, id task.ID) (task.Task, error) {
	return getOne(ctx, c.store, nil, id)
}

// GetMany is Get for up to task.MaxPerCall tasks, in no order; unknown ids are absent.
func (t *Tx) GetMany(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	if err := checkCount(len(ids)); err != nil || len(ids) == 0 {
		return nil, err
	}
	ctx, err := t.forTasks(ctx)
	if err != nil {
		return nil, err
	}
	found, err := t.rows.Get(ctx, t.db, ids)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", idsText(ids), err)
	}
	return found, nil
}

// ListOwner reads the owner's pending tasks, of one kind or ("") of any, by run_at, without locking them.
func (t *Tx) ListOwner(ctx context.Context, owner, kind string) ([]task.Task, error) {
	if err := task.CheckOwner(owner); err != nil {
		return nil, err
	}
	ctx, err := t.forTasks(ctx)
	if err != nil {
		return nil, err
	}
	found, err := t.rows.ListOwner(ctx, t.db, owner, kind)
	if err != nil {
		return nil, fmt.Errorf("list tasks of owner %s: %w", owner, err)
	}
	return found, nil
}
