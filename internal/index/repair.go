package index

import (
	"context"
	"fmt"

	"github.com/duetime/duetime/pkg/task"
)

// Standings returns, for each task, what the two sets of its shard hold for it; both scores of one task are of one
// moment. State and version of the tasks are not looked at. With a task.ShardsError the standings of the other shards'
// tasks are right.
func (x *Index) Standings(ctx context.Context, tasks []task.Task) ([]task.Standing, error) {
	b := x.batches(x.scripts.standings, x.plain)
	for i, t := range tasks {
		b.add(t, i)
	}
	failed := x.run(ctx, b.calls...)
	if _, partial := task.FailedShards(failed); failed != nil && !partial {
		return nil, failed
	}
	standings := make([]task.Standing, len(tasks))
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

func readStanding(due, owner string) (task.Standing, error) {
	d, err := parseScore(due)
	if err != nil {
		return task.Standing{}, err
	}
	o, err := parseScore(owner)
	return task.Standing{Due: d, Owner: o}, err
}

// Repair replaces, for each task, exactly the standing that was seen by the one that is right, whichever looks newer;
// where either set has moved on since, it leaves both alone. It returns how many tasks it changed; after a timeout
// and a resend inside, changes of the first sending are not counted.
func (x *Index) Repair(ctx context.Context, repairs []task.Repair) (int, error) {
	b := x.batches(x.scripts.repair, x.writing)
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

// Fill adds pending tasks to shards that lost their memory: each that stands in neither set. It returns those that stand
// in either otherwise than they should, and leaves them alone. It can be repeated. With a task.ShardsError the answer is
// that of the other shards.
func (x *Index) Fill(ctx context.Context, tasks []task.Task) (otherwise []task.Task, err error) {
	b := x.batches(x.scripts.fill, x.writing)
	for i, t := range tasks {
		b.add(t, i, number(task.ScoreOf(t)))
	}
	failed := x.run(ctx, b.calls...)
	if _, partial := task.FailedShards(failed); failed != nil && !partial {
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

// Remove takes a member that belongs to no task out of its shard where it still stands at exactly the score seen, and
// reports whether it did. One that decodes leaves due and its owner's set. One that doesn't (Err) leaves only the set
// in which it was seen: the owner's set if ScanOwners gave it, and with it the Owner, otherwise due.
func (x *Index) Remove(ctx context.Context, shard int, e task.Entry) (bool, error) {
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
