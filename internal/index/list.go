package index

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/pkg/task"
)

// Owner lists the owner's pending tasks by their next try. An owner without any has an empty list. Whole is false from when
// the shard lost its memory until it was rebuilt: the list may lack tasks then.
func (x *Index) Owner(ctx context.Context, shard int, owner string) (entries []task.Entry, whole bool, err error) {
	p := x.client.Pipeline()
	before := p.Get(ctx, x.genKey(shard))
	members := p.ZRangeWithScores(ctx, x.ownerKey(shard, owner), 0, -1)
	after := p.Get(ctx, x.genKey(shard)) // each rebuild has a marker of its own: none ended meanwhile, and no memory was lost
	if _, err := p.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, false, fmt.Errorf("list owner in shard %d: %w", shard, err)
	}
	return owned(part(owner), members.Val()), strings.HasPrefix(after.Val(), complete) && before.Val() == after.Val(), nil
}

// ScanDue walks the shard's due set, about count members a page; cursor 0 begins, a returned 0 ends. Members that
// stand there during the whole walk come at least once; some may come twice.
func (x *Index) ScanDue(ctx context.Context, shard int, cursor uint64, count int64) ([]task.Entry, uint64, error) {
	page, next, err := x.client.ZScan(ctx, x.dueKey(shard), cursor, "", count).Result()
	if err != nil {
		return nil, 0, fmt.Errorf("scan due of shard %d: %w", shard, err)
	}
	entries := make([]task.Entry, 0, len(page)/2)
	for i := 0; i+1 < len(page); i += 2 {
		score, err := parseScore(page[i+1])
		if err != nil {
			return nil, 0, fmt.Errorf("scan due of shard %d: %w", shard, err)
		}
		entries = append(entries, decode(page[i], float64(score)))
	}
	return entries, next, nil
}

// ScanOwners walks the shard's owner sets: each page looks at about count of the server's keys (most may be of other
// shards, so pages can be empty) and gives all members of the owner sets among them, with the scores of those sets.
// Owner is always that of the set, also of a member that can't be decoded or belongs elsewhere (Err says which).
func (x *Index) ScanOwners(ctx context.Context, shard int, cursor uint64, count int64) ([]task.Entry, uint64, error) {
	client, err := x.master(ctx, x.dueKey(shard))
	if err != nil {
		return nil, 0, fmt.Errorf("scan owners of shard %d: %w", shard, err)
	}
	var keys []string
	next := cursor
	for ; count > 0; count -= scanCount {
		var some []string
		some, next, err = client.Scan(ctx, next, x.ownerPattern(shard), min(count, scanCount)).Result()
		if err != nil {
			return nil, 0, fmt.Errorf("scan owners of shard %d: %w", shard, err)
		}
		keys = append(keys, some...)
		if next == 0 {
			break
		}
	}
	sets := make([]*redis.ZSliceCmd, len(keys))
	p := x.client.Pipeline()
	for i, key := range keys {
		sets[i] = p.ZRangeWithScores(ctx, key, 0, -1)
	}
	if _, err := p.Exec(ctx); err != nil {
		return nil, 0, fmt.Errorf("read owners of shard %d: %w", shard, err)
	}
	var entries []task.Entry
	for i, set := range sets {
		entries = append(entries, owned(strings.TrimPrefix(keys[i], x.ownerPrefix(shard)), set.Val())...)
	}
	return entries, next, nil
}

// owned decodes the members of an owner's set.
func owned(owner string, members []redis.Z) []task.Entry {
	entries := make([]task.Entry, 0, len(members))
	for _, z := range members {
		member, _ := z.Member.(string)
		e := decode(member, z.Score)
		if e.Err == nil && e.Owner != owner {
			e = task.Entry{Member: e.Member, Score: e.Score, Err: fmt.Errorf("of owner %q: %w of %q", e.Owner, errMember, owner)}
		}
		e.Owner = owner
		entries = append(entries, e)
	}
	return entries
}

// Counts returns how many members the due set of each shard holds, in one pipeline.
func (x *Index) Counts(ctx context.Context, shards int) ([]int64, error) {
	p := x.client.Pipeline()
	answers := make([]*redis.IntCmd, shards)
	for s := range answers {
		answers[s] = p.ZCard(ctx, x.dueKey(s))
	}
	if _, err := p.Exec(ctx); err != nil {
		return nil, fmt.Errorf("count due of %d shards: %w", shards, err)
	}
	counts := make([]int64, shards)
	for s, a := range answers {
		counts[s] = a.Val()
	}
	return counts, nil
}
