package index

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Shard is the state of one shard for operators. It is an alias of an unnamed type: a console without an index links no client of
// Redis.
type Shard = struct {
	Due    int64     // entries of the due set
	Oldest time.Time // the time of the first entry; zero for none
	Marker string    // MarkerAbsent, MarkerBuilding or MarkerComplete
	Epoch  int64     // of the newest leader that claimed from the shard; 0 for none
}

// The states of a shard's generation marker.
const (
	MarkerAbsent   = "absent"   // the shard's memory was lost
	MarkerBuilding = "building" // a rebuild is under way
	MarkerComplete = "complete"
)

// Shards reads the shards 0 … n-1, in one pipeline to each node.
func (x *Index) Shards(ctx context.Context, n int) ([]Shard, error) {
	type answers struct {
		due        *redis.IntCmd
		first      *redis.ZSliceCmd
		gen, epoch *redis.StringCmd
	}
	p := x.client.Pipeline()
	all := make([]answers, n)
	for s := range all {
		all[s] = answers{
			p.ZCard(ctx, x.dueKey(s)), p.ZRangeWithScores(ctx, x.dueKey(s), 0, 0), p.Get(ctx, x.genKey(s)), p.Get(ctx, x.epochKey(s)),
		}
	}
	if _, err := p.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) { // redis.Nil: a key is missing
		return nil, fmt.Errorf("read %d shards: %w", n, err)
	}
	shards := make([]Shard, n)
	for s, a := range all {
		for _, c := range []redis.Cmder{a.due, a.first, a.gen, a.epoch} {
			if err := c.Err(); err != nil && !errors.Is(err, redis.Nil) {
				return nil, fmt.Errorf("read shard %d: %w", s, err)
			}
		}
		shards[s] = Shard{Due: a.due.Val(), Marker: markerOf(a.gen.Val())}
		if first := a.first.Val(); len(first) > 0 {
			shards[s].Oldest = scoreOf(first[0].Score).RunAt()
		}
		shards[s].Epoch, _ = strconv.ParseInt(a.epoch.Val(), 10, 64) // 0 for none
	}
	return shards, nil
}

func markerOf(gen string) string {
	switch {
	case strings.HasPrefix(gen, complete):
		return MarkerComplete
	case strings.HasPrefix(gen, building):
		return MarkerBuilding
	default:
		return MarkerAbsent
	}
}

// scanCount is how many keys one SCAN looks at. With ten million keys, a SCAN of a thousand takes 10 ms, in which Redis
// answers no other client.
const scanCount = 100

// OwnerSets counts the owner sets of the shards 0 … n-1. It walks all keys of the servers.
func (x *Index) OwnerSets(ctx context.Context, n int) ([]int64, error) {
	var mu sync.Mutex
	counts := make([]int64, n)
	err := x.eachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
		keys := c.Scan(ctx, 0, x.ownersPattern(), scanCount).Iterator()
		for keys.Next(ctx) {
			shard, ok := x.shardOf(keys.Val())
			if !ok || shard >= n {
				continue
			}
			mu.Lock()
			counts[shard]++
			mu.Unlock()
		}
		return keys.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("count owners: %w", err)
	}
	return counts, nil
}

// shardOf returns the shard of an owner's key.
func (x *Index) shardOf(key string) (int, bool) {
	tail, ours := strings.CutPrefix(key, x.namespace+":{")
	number, _, tagged := strings.Cut(tail, "}")
	shard, err := strconv.Atoi(number)
	return shard, ours && tagged && err == nil && shard >= 0
}

// Unmark removes the generation markers of the shards, as if their memory were lost: the daemon rebuilds the shards.
// Entries stay, and are claimed meanwhile.
func (x *Index) Unmark(ctx context.Context, shards []int) error {
	p := x.client.Pipeline()
	for _, s := range shards {
		p.Del(ctx, x.genKey(s))
	}
	if _, err := p.Exec(ctx); err != nil {
		return fmt.Errorf("take the markers of %d shards away: %w", len(shards), err)
	}
	return nil
}
