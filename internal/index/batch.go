package index

import (
	"strconv"

	"github.com/duetime/duetime/pkg/task"
)

// maxCallMembers bounds the members of one script call. Redis serves no other client during a call. In an owner's set of
// a million a member takes about 10 µs: a call of a thousand delayed all others by 20 ms and more on a busy machine.
const maxCallMembers = 250

// batches distributes tasks among script calls: one for each shard and maxCallMembers members.
type batches struct {
	index  *Index
	script *script
	head   func(shard int) ([]string, []any) // the first keys and arguments of every call
	open   map[int]*batch
	calls  []*call
	parts  []*batch // in the order of calls
}

type batch struct {
	call   *call
	places map[string]int // by owner's set: its position in KEYS
	items  []int          // by member: the caller's number
}

func (x *Index) batches(s *script, head func(shard int) ([]string, []any)) *batches {
	return &batches{index: x, script: s, head: head, open: map[int]*batch{}}
}

// add appends the task's member, the position of its owner's set, and more arguments. item is the caller's number of the
// task.
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

// wakingHead begins calls that may wake a dispatcher.
func (x *Index) wakingHead(shard int) ([]string, []any) {
	return []string{x.dueKey(shard), x.claimedKey(shard)}, []any{x.publish, x.wakeKey(shard)}
}

// quietHead begins calls of the same scripts that need not wake a dispatcher.
func (x *Index) quietHead(shard int) ([]string, []any) {
	return []string{x.dueKey(shard), x.claimedKey(shard)}, []any{x.publish, ""}
}

// dueHead begins calls of scripts that never wake a dispatcher.
func (x *Index) dueHead(shard int) ([]string, []any) { return []string{x.dueKey(shard)}, nil }
