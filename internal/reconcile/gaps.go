package reconcile

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// fruitless is after how many pages in a row of failed shards alone a pass gives up.
const fruitless = 8

// gaps are the shards that did not take their part in a pass: it goes on with the others, and tells at its end.
type gaps struct {
	shards map[int]error
	dry    int // pages in a row of failed shards alone
}

// take notes the shards in which a call for a page of tasks failed. It returns the errors that end a pass.
func (g *gaps) take(err error, page []task.Task) error {
	failed, partial := task.FailedShards(err)
	switch {
	case err != nil && !partial:
		return err
	case partial && g.shards == nil:
		g.shards = map[int]error{}
	}
	maps.Copy(g.shards, failed)
	if len(page) == 0 || slices.ContainsFunc(page, func(t task.Task) bool { return !g.has(t) }) {
		g.dry = 0
		return nil
	}
	if g.dry++; g.dry >= fruitless {
		return g.err()
	}
	return nil
}

// sound leaves out the tasks of failed shards: a call that waits for a lost node holds the others' up.
func (g *gaps) sound(tasks []task.Task) []task.Task {
	if len(g.shards) == 0 {
		return tasks
	}
	return slices.DeleteFunc(slices.Clone(tasks), g.has)
}

// err tells of the gaps; nil if there are none.
func (g *gaps) err() error {
	if len(g.shards) == 0 {
		return nil
	}
	return &task.ShardsError{Shards: g.shards}
}

// has reports whether the task's shard is one of the gaps.
func (g *gaps) has(t task.Task) bool { return g.shards[t.Shard] != nil }

// arrears are shards that answered to nobody for some time: what changed in their rows meanwhile is compared once they
// answer again.
type arrears struct {
	mu    sync.Mutex
	since map[int]time.Time // rows changed from this moment on have not been compared
	ids   map[int][]task.ID // rows to be put whatever their moment: messages told of them
	n     int               // ids
}

const mostOwed = 100_000 // ids; what doesn't fit is the sweeps'

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
	if a.n == mostOwed {
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
