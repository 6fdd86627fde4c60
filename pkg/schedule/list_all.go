package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"

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

// Tasks lists the owner's pending tasks, of one kind or ("") of any, by their next try, and says where the list came
// from: the index, or the database when the index is away or has lost its memory. The index may lag behind other clients'
// commits for a moment; what this one has committed is waited for as long as a put may take a caller.
//
// It lists all of them, a thousand at a time. For owners who may have many more, TasksPage is kinder to everybody.
func (c *Client) Tasks(ctx context.Context, owner, kind string) (entries []task.Entry, source string, err error) {
	if err := task.CheckOwner(owner); err != nil {
		return nil, "", err
	}
	if entries, err = c.fromIndex(ctx, owner, kind); err == nil {
		return entries, FromIndex, nil
	}
	return c.TasksFromDB(ctx, owner, kind)
}

// TasksFromDB is Tasks by the database alone, as committed.
func (c *Client) TasksFromDB(ctx context.Context, owner, kind string) (entries []task.Entry, source string, err error) {
	if err := task.CheckOwner(owner); err != nil {
		return nil, "", err
	}
	rows, err := c.store.ListOwner(ctx, nil, owner, kind)
	if err != nil {
		return nil, "", fmt.Errorf("list tasks of owner %s: %w", owner, err)
	}
	for _, t := range rows {
		entries = append(entries, entryOf(t))
	}
	return entries, FromDB, nil
}

// entryOf is the index's entry of a pending row, but for its member.
func entryOf(t task.Task) task.Entry {
	return task.Entry{
		Score: task.ScoreOf(t), ID: t.ID, Kind: t.Kind, Queue: t.Queue, Owner: t.Owner, Subject: t.Subject,
	}
}

// fromIndex lists all, each page within the time of a put. What moves between two pages comes once.
func (c *Client) fromIndex(ctx context.Context, owner, kind string) (all []task.Entry, err error) {
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
	return lastOfEach(ours(all)), nil
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
	entries []task.Entry, next, generation string, err error,
) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.PutTimeout)
	defer cancel()
	entries, next, generation, err = c.index.OwnerPage(ctx, shard, owner, kind, place, limit)
	if err == nil && generation == "" {
		err = errNotWhole
	}
	return entries, next, generation, err
}

// lastOfEach keeps the last entry of each task.
func lastOfEach(entries []task.Entry) []task.Entry {
	last := make(map[task.ID]int, len(entries))
	for i, e := range entries {
		last[e.ID] = i
	}
	i := -1
	return slices.DeleteFunc(entries, func(e task.Entry) bool { i++; return last[e.ID] != i })
}
