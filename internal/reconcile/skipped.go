package reconcile

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// maxFailedPages is how many pages in a row may meet failed shards alone before a pass gives up.
const maxFailedPages = 8

// skippedShards are the shards whose Redis node failed during a pass. The pass goes on with the other shards, and returns the
// failures at its end.
type skippedShards struct {
	shards      map[int]error
	failedPages int // pages in a row that met failed shards alone
}

// collect records the shards in which a call for a page of tasks failed. It returns the errors that end a pass.
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

// arrears are shards that answered to nobody for some time: what changed in their rows meanwhile is compared once they
// answer again.
type arrears struct {
	mu    sync.Mutex
	since map[int]time.Time // rows changed from this moment on have not been compared
	ids   map[int][]task.ID // rows to be put whatever their moment: messages told of them
	n     int               // ids
}

const maxOwedIDs = 100_000 // ids; what doesn't fit is the sweeps'

// owe notes that a shard's rows changed from a moment on have not been compared.
func (a *arrears) owe(shard int, since time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if before, ok := a.since[shard]; ok && before.Before(since) {
		return
	}
	if a.since == nil {
		a.since = map[int]time.Time{}
	}
	a.since[shard] = since
}

// all returns a copy.
func (a *arrears) all() map[int]time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.since)
}

// oweRow is owe for a row that a message told of.
func (a *arrears) oweRow(row task.Task) {
	a.owe(row.Shard, row.UpdatedAt)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n == maxOwedIDs {
		return
	}
	if a.ids == nil {
		a.ids = map[int][]task.ID{}
	}
	a.ids[row.Shard] = append(a.ids[row.Shard], row.ID)
	a.n++
}

// paid forgets a shard, unless more has come to be owed since, and returns the rows that are to be put now.
func (a *arrears) paid(shard int, since time.Time) []task.ID {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.since[shard].Equal(since) {
		delete(a.since, shard)
	}
	ids := a.ids[shard]
	delete(a.ids, shard)
	a.n -= len(ids)
	return ids
}
