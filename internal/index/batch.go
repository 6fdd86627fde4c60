package index

import (
	"strconv"

	"github.com/duetime/duetime/pkg/task"
)

// maxCallMembers bounds the members of one script call. Redis serves nobody else during a call: in an owner's set of a million
// a member takes some 10 µs, and a call of a thousand held all others up for 20 ms and more on a busy machine.
const maxCallMembers = 250

// batches spreads tasks over script calls: one per shard and maxCallMembers members.
type batches struct {
	index  *Index
	script *script
	head   func(shard int) ([]string, []any) // what every call begins with
	open   map[int]*batch
	calls  []*call
	parts  []*batch // as calls
}

type batch struct {
	call   *call
	places map[string]int // where an owner's set stands in KEYS
	items  []int          // the caller's numbers of the members, in order
}

func (x *Index) batches(s *script, head func(shard int) ([]string, []any)) *batches {
	return &batches{index: x, script: s, head: head, open: map[int]*batch{}}
}

// add appends the task's member, the place of its owner's set, and more; item is what the caller knows it by.
func (b *batches) add(t task.Task, item int, more ...any) {
	into := b.open[t.Shard]
	if into == nil || len(into.items) == maxCallMembers {
		into = b.next(t.Shard)
	}
	key := b.index.ownerKey(t.Shard, t.Owner)
	place, ok := into.places[key]
	if !ok {
		into.call.keys = append(into.call.keys, key)
		place = len(into.call.keys)
		into.places[key] = place
	}
	into.items = append(into.items, item)
	into.call.args = append(into.call.args, encode(t), strconv.Itoa(place))
	into.call.args = append(into.call.args, more...)
}

func (b *batches) next(shard int) *batch {
	keys, args := b.head(shard)
	n := &batch{
		call:   &call{script: b.script, shard: shard, keys: keys, args: args},
		places: map[string]int{},
	}
	b.open[shard] = n
	b.calls = append(b.calls, n.call)
	b.parts = append(b.parts, n)
	return n
}

// writing begins the calls that may wake a dispatcher.
func (x *Index) writing(shard int) ([]string, []any) {
	return []string{x.dueKey(shard), x.claimedKey(shard)}, []any{x.publish, x.wakeKey(shard)}
}

// calmly begins the calls that may write as others do, but have nobody to wake.
func (x *Index) calmly(shard int) ([]string, []any) {
	return []string{x.dueKey(shard), x.claimedKey(shard)}, []any{x.publish, ""}
}

// plain begins the calls that can't.
func (x *Index) plain(shard int) ([]string, []any) { return []string{x.dueKey(shard)}, nil }
