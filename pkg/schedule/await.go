package schedule

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// Between two looks of a caller that waits.
const (
	awaitShortest = 5 * time.Millisecond
	awaitLongest  = 500 * time.Millisecond
)

// await looks until look is done or fails, or ctx ends: at first each few milliseconds, and later twice a second.
func await(ctx context.Context, look func() (done bool, err error)) error {
	for wait := awaitShortest; ; wait = min(2*wait, awaitLongest) {
		if done, err := look(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// Await returns the task once it has ended: done, cancelled or dead. It looks at the row, at first each few milliseconds and later twice a
// second. It returns ctx's error if ctx ends before, with the task as it was then, and task.ErrNotFound for an id without a row.
func (c *Client) Await(ctx context.Context, id task.ID) (row task.Task, err error) {
	err = await(ctx, func() (bool, error) {
		seen, err := c.Get(ctx, id)
		if err == nil {
			row = seen
		}
		return row.State != task.Pending, err
	})
	return row, err
}

// AwaitDue waits until each task of the owner that is due at the call, of one kind or ("") of any, has ended or has another due time: what
// the service reads afterwards, in a transaction that it begins then, has the effects of all of them. Workers run them; a client with
// handlers has Fresh, which waits for nobody. AwaitDue looks at the rows, at first each few milliseconds and later twice a second. For an
// owner with nothing due it asks the clock and makes one seek.
//
// If ctx ends before, it returns ctx's error and the tasks that it still waited for, by their run times, at most
// task.MaxPerCall: none of them means that it had not looked yet. A task whose attempt has failed is waited for until a later
// attempt ends it; one that waited for a retry at the call already is not. One that was put off without an attempt is waited
// for too, if that was for ten minutes at most: no worker has its kind or reaches its endpoint, its handler has answered
// Snooze, its owner or kind is paused, or an earlier task of its order key has not ended.
func (c *Client) AwaitDue(ctx context.Context, owner, kind string) (left []task.Task, err error) {
	if err := task.CheckOwner(owner); err != nil {
		return nil, err
	}
	asked, err := c.store.Now(ctx, nil)
	if err == nil {
		err = await(ctx, func() (bool, error) {
			seen, err := c.dueAt(ctx, owner, kind, asked, left)
			if err == nil {
				left = seen
			}
			return len(left) == 0, err
		})
	}
	if err != nil {
		return left, fmt.Errorf("await what is due of owner %s: %w", owner, err)
	}
	return nil, nil
}

// dueAt reads the owner's pending tasks that were due at the moment: those that the store finds, and those of before, whose
// attempts may have failed since. It keeps to task.MaxPerCall of them: later looks find others once these have ended.
func (c *Client) dueAt(ctx context.Context, owner, kind string, at time.Time, before []task.Task) ([]task.Task, error) {
	due, err := c.store.ListOwnerDue(ctx, owner, kind, at, task.MaxPerCall)
	if err != nil {
		return nil, err
	}
	ids := make([]task.ID, 0, len(before)+len(due))
	for _, row := range slices.Concat(before, due) {
		if !slices.Contains(ids, row.ID) {
			ids = append(ids, row.ID)
		}
	}
	ids = ids[:min(len(ids), task.MaxPerCall)]
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := c.store.Get(ctx, nil, ids)
	rows = slices.DeleteFunc(rows, func(t task.Task) bool { return t.State != task.Pending || t.DueAt.After(at) })
	slices.SortFunc(rows, func(a, b task.Task) int { return cmp.Or(a.RunAt.Compare(b.RunAt), a.ID.Compare(b.ID)) })
	return rows, err
}
