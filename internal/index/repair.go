package index

import (
	"context"
	"fmt"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// Standings returns, for each task, its scores in the two sets of its shard; both scores of a task are read at one
// moment. It ignores the tasks' states and versions. With a protocol.ShardsError the standings of the other shards' tasks
// are right.
func (x *Index) Standings(ctx context.Context, tasks []task.Task) ([]protocol.Standing, error) {
	b := x.batches(x.scripts.standings, x.dueHead)
	for i, t := range tasks {
		b.add(t, i)
	}
	failed := x.run(ctx, b.calls...)
	if _, partial := protocol.FailedShards(failed); failed != nil && !partial {
		return nil, failed
	}
	standings := make([]protocol.Standing, len(tasks))
	for _, p := range b.parts {
		if p.call.reply.Err() != nil {
			continue
		}
		answer, err := p.call.reply.StringSlice()
		if err == nil && len(answer) != 2*len(p.items) {
			err = fmt.Errorf("%d scores for %d members", len(answer), len(p.items))
		}
		for i := 0; err == nil && i < len(p.items); i++ {
			standings[p.items[i]], err = readStanding(answer[2*i], answer[2*i+1])
		}
		if err != nil {
			return nil, fmt.Errorf("read standings of shard %d: %w", p.call.shard, err)
		}
	}
	return standings, failed
}

func readStanding(due, owner string) (protocol.Standing, error) {
	d, err := parseScore(due)
	if err != nil {
		return protocol.Standing{}, err
	}
	o, err := parseScore(owner)
	return protocol.Standing{Due: d, Owner: o}, err
}

// Repair replaces, for each task, exactly the standing that was seen by the right one, whichever looks newer. If either
// set has changed since, it changes neither. It returns the number of changed tasks. If it had to resend a call after a
// timeout, changes of the first call are not counted.
func (x *Index) Repair(ctx context.Context, repairs []protocol.Repair) (int, error) {
	b := x.batches(x.scripts.repair, x.wakingHead)
	for i, r := range repairs {
		b.add(r.Task, i, number(r.Seen.Due), number(r.Seen.Owner), number(r.Right.Due), number(r.Right.Owner))
	}
	err := x.run(ctx, b.calls...)
	changed := 0
	for _, c := range b.calls {
		if n, e := c.reply.Int(); e == nil {
			changed += n
		}
	}
	return changed, err
}

// Fill puts pending tasks that are in neither set. It returns the tasks whose entries differ, and does not change these.
// It can be repeated. With a protocol.ShardsError the answer is about the other shards.
func (x *Index) Fill(ctx context.Context, tasks []task.Task) (otherwise []task.Task, err error) {
	b := x.batches(x.scripts.fill, x.wakingHead)
	for i, t := range tasks {
		b.add(t, i, number(protocol.ScoreOf(t)))
	}
	failed := x.run(ctx, b.calls...)
	if _, partial := protocol.FailedShards(failed); failed != nil && !partial {
		return nil, failed
	}
	for _, p := range b.parts {
		if p.call.reply.Err() != nil {
			continue
		}
		places, err := p.call.reply.Int64Slice()
		if err != nil {
			return nil, fmt.Errorf("read fill of shard %d: %w", p.call.shard, err)
		}
		for _, n := range places {
			if n < 1 || n > int64(len(p.items)) {
				return nil, fmt.Errorf("read fill of shard %d: place %d of %d", p.call.shard, n, len(p.items))
			}
			otherwise = append(otherwise, tasks[p.items[n-1]])
		}
	}
	return otherwise, failed
}

// Remove removes a member without a row if it still has exactly the score that was seen, and reports whether it did. A
// readable member is removed from due and from its owner's set. An unreadable one (Err) is removed only from the set in
// which it was seen: the owner's set if ScanOwners returned it, with its Owner, otherwise due.
func (x *Index) Remove(ctx context.Context, shard int, e protocol.Entry) (bool, error) {
	c := &call{script: x.scripts.remove, shard: shard, args: []any{e.Member, number(e.Score)}}
	if e.Err == nil || e.Owner == "" {
		c.keys = append(c.keys, x.dueKey(shard))
	}
	if e.Owner != "" {
		c.keys = append(c.keys, x.ownerKey(shard, e.Owner))
	}
	if err := x.run(ctx, c); err != nil {
		return false, err
	}
	n, err := c.reply.Int()
	if err != nil {
		return false, fmt.Errorf("read removal in shard %d: %w", shard, err)
	}
	return n > 0, nil
}
