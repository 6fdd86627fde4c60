package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// Where a list came from.
const (
	FromIndex = "redis"
	FromDB    = "db"
)

var (
	errNoLayout   = errors.New("layout is not known")
	errManyShards = errors.New("the owner's tasks stand in several shards")
	errNotWhole   = errors.New("the shard has lost its memory")
	errPartial    = errors.New("the index has no tasks beyond the horizon")
	errAway       = errors.New("the index is away")
)

// Tasks lists the owner's pending tasks, of one kind or ("") of any, by their next try, and says where they were found: in
// the index, or by the database alone when the index is away or has lost its memory. Each task is as the database has it. The index may
// not have heard yet of what other clients have just scheduled; what this one has committed is waited for as long as a put may take a
// caller.
//
// It lists all of them, a thousand at a time. For owners who may have many more, TasksPage is kinder to everybody.
func (c *Client) Tasks(ctx context.Context, owner, kind string) (tasks []task.Task, source string, err error) {
	if err := task.CheckOwner(owner); err != nil {
		return nil, "", err
	}
	entries, err := c.fromIndex(ctx, owner, kind)
	if err != nil {
		return c.TasksFromDB(ctx, owner, kind)
	}
	tasks, err = c.pendingOf(ctx, entries)
	return tasks, FromIndex, err
}

// TasksFromDB is Tasks by the database alone, as committed.
func (c *Client) TasksFromDB(ctx context.Context, owner, kind string) (tasks []task.Task, source string, err error) {
	if err := task.CheckOwner(owner); err != nil {
		return nil, "", err
	}
	if tasks, err = c.store.ListOwner(ctx, nil, owner, kind); err != nil {
		return nil, "", fmt.Errorf("list tasks of owner %s: %w", owner, err)
	}
	return tasks, FromDB, nil
}

// pendingOf reads the rows of what was found, and leaves out those that have ended meanwhile.
func (c *Client) pendingOf(ctx context.Context, found []protocol.Entry) ([]task.Task, error) {
	if len(found) == 0 {
		return nil, nil
	}
	ids := make([]task.ID, len(found))
	for i, e := range found {
		ids[i] = e.ID
	}
	slices.SortFunc(ids, task.ID.Compare)
	rows, err := c.store.Get(ctx, nil, slices.Compact(ids)) // what moves between two pages comes twice
	if err != nil {
		return nil, fmt.Errorf("read %d tasks of owner %s: %w", len(ids), found[0].Owner, err)
	}
	rows = slices.DeleteFunc(rows, func(t task.Task) bool { return t.State != task.Pending })
	slices.SortFunc(rows, func(a, b task.Task) int { return cmp.Or(a.RunAt.Compare(b.RunAt), a.ID.Compare(b.ID)) })
	return rows, nil
}

// fromIndex lists all, each page within the time of a put.
func (c *Client) fromIndex(ctx context.Context, owner, kind string) (all []protocol.Entry, err error) {
	shard, err := c.readableShard(ctx, owner)
	if err != nil {
		return nil, err
	}
	var first, place string
	for pages := 0; pages == 0 || place != ""; pages++ {
		entries, next, generation, err := c.readPage(ctx, shard, owner, kind, place, task.MaxPerCall)
		if pages == 0 {
			first = generation
		}
		if err == nil && generation != first {
			err = errNotWhole
		}
		if err != nil {
			return nil, err
		}
		all, place = append(all, entries...), next
	}
	if len(all) <= task.MaxPerCall {
		return ours(all), nil
	}
	// Reading many pages takes long enough for the owner's tasks to have begun to move.
	if now, err := c.readableShard(ctx, owner); err != nil || now != shard {
		return nil, errManyShards
	}
	return ours(all), nil
}

// readableShard returns the one shard in which all of the owner's tasks stand, once what this client has committed was put
// there. While rows are moved to other shards, the database has the list: a task that moves stands in both shards, or in none.
func (c *Client) readableShard(ctx context.Context, owner string) (int, error) {
	if c.cfg.Layout == nil {
		return 0, errNoLayout
	}
	layout, err := c.cfg.Layout(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the layout: %w", err)
	}
	if layout.Shards < 1 {
		return 0, errNoLayout
	}
	standing := layout.Standing(owner)
	switch {
	case layout.Partial:
		return 0, errPartial
	case len(standing) != 1:
		return 0, errManyShards
	case c.ledger.Writer().Away(standing[0]):
		return 0, errAway
	}
	c.ledger.Writer().WaitForEarlierPuts(ctx)
	return standing[0], nil
}

// readPage reads one answer of the index, of a shard that has not lost its memory.
func (c *Client) readPage(ctx context.Context, shard int, owner, kind, place string, limit int) (
	entries []protocol.Entry, next, generation string, err error,
) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.PutTimeout)
	defer cancel()
	entries, next, generation, err = c.index.OwnerPage(ctx, shard, owner, kind, place, limit)
	if err == nil && generation == "" {
		err = errNotWhole
	}
	return entries, next, generation, err
}
