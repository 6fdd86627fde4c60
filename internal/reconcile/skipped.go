package reconcile

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// maxFailedPages bounds the pages in a row that have only tasks of failed shards; then the pass ends.
const maxFailedPages = 8

// skippedShards are the shards whose Redis node failed during a pass. The pass goes on with the other shards, and
// returns the failures at its end.
type skippedShards struct {
	shards      map[int]error
	failedPages int // pages in a row with only tasks of failed shards
}

// collect records the shards in which a call for a page of tasks failed. It returns errors that end the pass.
func (s *skippedShards) collect(err error, page []task.Task) error {
	failed, partial := task.FailedShards(err)
	switch {
	case err != nil && !partial:
		return err
	case partial && s.shards == nil:
		s.shards = map[int]error{}
	}
	maps.Copy(s.shards, failed)
	if len(page) == 0 || slices.ContainsFunc(page, func(t task.Task) bool { return !s.has(t) }) {
		s.failedPages = 0
		return nil
	}
	if s.failedPages++; s.failedPages >= maxFailedPages {
		return s.err()
	}
	return nil
}

// reachable leaves out the tasks of failed shards: a call that waits for a lost node delays the other shards' tasks.
func (s *skippedShards) reachable(tasks []task.Task) []task.Task {
	if len(s.shards) == 0 {
		return tasks
	}
	return slices.DeleteFunc(slices.Clone(tasks), s.has)
}

// err returns the failures of all skipped shards; nil if there are none.
func (s *skippedShards) err() error {
	if len(s.shards) == 0 {
		return nil
	}
	return &task.ShardsError{Shards: s.shards}
}

// has reports whether the task's shard is skipped.
func (s *skippedShards) has(t task.Task) bool { return s.shards[t.Shard] != nil }

// uncomparedShards are shards that failed in earlier passes. Their rows that changed meanwhile are compared once they
// answer.
type uncomparedShards struct {
	mu    sync.Mutex
	since map[int]time.Time // by shard: rows that changed from this moment on are not compared
	ids   map[int][]task.ID // by shard: rows named by compensations, to be put even if their hint may be under way
	n     int               // number of ids
}

const maxUncomparedIDs = 100_000 // the sweeps find the rows of further ids

// add records that a shard's rows that changed from a moment on are not compared.
func (u *uncomparedShards) add(shard int, since time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if before, ok := u.since[shard]; ok && before.Before(since) {
		return
	}
	if u.since == nil {
		u.since = map[int]time.Time{}
	}
	u.since[shard] = since
}

// all returns a copy of since.
func (u *uncomparedShards) all() map[int]time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.since)
}

// addRow is add for a row that a compensation named.
func (u *uncomparedShards) addRow(row task.Task) {
	u.add(row.Shard, row.UpdatedAt)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.n >= maxUncomparedIDs {
		return
	}
	if u.ids == nil {
		u.ids = map[int][]task.ID{}
	}
	u.ids[row.Shard] = append(u.ids[row.Shard], row.ID)
	u.n++
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

// putBack undoes a take: these ids were not put.
func (u *uncomparedShards) putBack(shard int, since time.Time, ids []task.ID) {
	u.add(shard, since)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ids == nil {
		u.ids = map[int][]task.ID{}
	}
	u.ids[shard] = append(u.ids[shard], ids...)
	u.n += len(ids)
}
