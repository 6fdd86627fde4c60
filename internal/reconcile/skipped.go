package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// reachable is the index without the shards that have failed since a sweep began: a call that waits for a lost node would
// delay the other shards' tasks. Its calls leave out the tasks of failed shards, and return the others. The pass that runs the
// sweep needs to know nothing of it; the failures are its error at the end. It is safe for concurrent use.
type reachable struct {
	Index
	mu     sync.Mutex
	failed map[int]error // by shard
}

// skip records the shards in which a call failed. It returns the error of a call that failed as a whole.
func (x *reachable) skip(err error) error {
	failed, partial := protocol.FailedShards(err)
	if !partial {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.failed == nil {
		x.failed = map[int]error{}
	}
	maps.Copy(x.failed, failed)
	return nil
}

// skips reports whether the shard has failed.
func (x *reachable) skips(shard int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.failed[shard] != nil
}

// without leaves out the tasks of failed shards.
func (x *reachable) without(tasks []task.Task) []task.Task {
	x.mu.Lock()
	defer x.mu.Unlock()
	return outside(tasks, x.failed)
}

// outside returns the tasks outside some shards.
func outside(tasks []task.Task, shards map[int]error) []task.Task {
	if len(shards) == 0 {
		return tasks
	}
	return slices.DeleteFunc(slices.Clone(tasks), func(t task.Task) bool { return shards[t.Shard] != nil })
}

// err names the failed shards; nil if there are none.
func (x *reachable) err() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.failed) == 0 {
		return nil
	}
	return &protocol.ShardsError{Shards: maps.Clone(x.failed)}
}

// Put puts the tasks that it reaches.
func (x *reachable) Put(ctx context.Context, tasks []task.Task) error {
	tasks = x.without(tasks)
	if err := x.skip(x.Index.Put(ctx, tasks)); err != nil {
		return fmt.Errorf("put %d tasks: %w", len(tasks), err)
	}
	return nil
}

// Standings returns the tasks that it has reached, and their standings.
func (x *reachable) Standings(ctx context.Context, tasks []task.Task) (reached []task.Task, seen []protocol.Standing, err error) {
	tasks = x.without(tasks)
	all, err := x.Index.Standings(ctx, tasks)
	failed, _ := protocol.FailedShards(err)
	if err := x.skip(err); err != nil {
		return nil, nil, fmt.Errorf("read %d standings: %w", len(tasks), err)
	}
	for i, t := range tasks {
		if failed[t.Shard] == nil {
			reached, seen = append(reached, t), append(seen, all[i])
		}
	}
	return reached, seen, nil
}

// Repair returns the tasks that it has reached, and how many of them it has changed.
func (x *reachable) Repair(ctx context.Context, repairs []protocol.Repair) (reached []task.Task, changed int, err error) {
	repairs = slices.DeleteFunc(repairs, func(rep protocol.Repair) bool { return x.skips(rep.Task.Shard) })
	changed, err = x.Index.Repair(ctx, repairs)
	failed, _ := protocol.FailedShards(err)
	if err := x.skip(err); err != nil {
		return nil, changed, fmt.Errorf("repair %d entries: %w", len(repairs), err)
	}
	for _, rep := range repairs {
		reached = append(reached, rep.Task)
	}
	return outside(reached, failed), changed, nil
}

// Fill returns the tasks that it has reached, and those of them whose entries differ.
func (x *reachable) Fill(ctx context.Context, tasks []task.Task) (reached, otherwise []task.Task, err error) {
	tasks = x.without(tasks)
	otherwise, err = x.Index.Fill(ctx, tasks)
	failed, _ := protocol.FailedShards(err)
	if err := x.skip(err); err != nil {
		return nil, nil, fmt.Errorf("fill %d entries: %w", len(tasks), err)
	}
	return outside(tasks, failed), otherwise, nil
}

// uncomparedShards are shards that failed in earlier passes. Their rows that changed meanwhile are compared once they
// answer.
type uncomparedShards struct {
	mu    sync.Mutex
	since map[int]time.Time // by shard: rows that changed from this moment on are not compared
	ids   map[int][]task.ID // by shard: rows named by compensations, to be put even if their hint may be under way
	n     int               // number of ids
}

const maxUncomparedIDs = 100_000 // the sweeps find the rows of further ids

// add records that a shard's rows that changed from a moment on are not compared, and some rows that compensations named.
func (u *uncomparedShards) add(shard int, since time.Time, ids ...task.ID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.since == nil {
		u.since, u.ids = map[int]time.Time{}, map[int][]task.ID{}
	}
	if before, ok := u.since[shard]; !ok || since.Before(before) {
		u.since[shard] = since
	}
	if u.n < maxUncomparedIDs {
		u.ids[shard] = append(u.ids[shard], ids...)
		u.n += len(ids)
	}
}

// all returns a copy of since.
func (u *uncomparedShards) all() map[int]time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.since)
}

// take removes a shard, unless an earlier moment was added meanwhile, and returns the ids of the rows to be put now.
func (u *uncomparedShards) take(shard int, since time.Time) []task.ID {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.since[shard].Equal(since) {
		delete(u.since, shard)
	}
	ids := u.ids[shard]
	delete(u.ids, shard)
	u.n -= len(ids)
	return ids
}
