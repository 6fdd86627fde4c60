package index

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/protocol"
)

// ScanDue walks the shard's due set, about count members a page. Members that are in the set during the whole walk come
// at least once; some may come twice.
func (x *Index) ScanDue(ctx context.Context, shard int, cursor protocol.ScanCursor, count int64) ([]protocol.Entry, protocol.ScanCursor, error) {
	members, next, err := x.scan(ctx, x.dueKey(shard), cursor.Keys, count)
	if err != nil {
		return nil, protocol.ScanCursor{}, fmt.Errorf("scan due of shard %d: %w", shard, err)
	}
	entries := make([]protocol.Entry, 0, len(members))
	for _, z := range members {
		member, _ := z.Member.(string)
		entries = append(entries, decode(member, z.Score))
	}
	return entries, protocol.ScanCursor{Keys: next}, nil
}

// scan returns about count members of a sorted set. Redis takes a fraction of a millisecond for a thousand members of a
// set of any size.
func (x *Index) scan(ctx context.Context, key string, cursor uint64, count int64) ([]redis.Z, uint64, error) {
	page, next, err := x.client.ZScan(ctx, key, cursor, "", count).Result()
	if err != nil {
		return nil, 0, err
	}
	members := make([]redis.Z, 0, len(page)/2)
	for i := 0; i+1 < len(page); i += 2 {
		score, err := parseScore(page[i+1])
		if err != nil {
			return nil, 0, err
		}
		members = append(members, redis.Z{Member: page[i], Score: float64(score)})
	}
	return members, next, nil
}

// ScanOwners walks the shard's owner sets, about count members a page. A page looks at about count of the server's keys
// (most may be of other shards, so pages can be empty), or goes on in a set that is larger than a page. The entries have
// the scores of their owner sets. An entry's Owner is always the set's owner, even if the member can't be decoded or
// names another owner (see Err).
func (x *Index) ScanOwners(ctx context.Context, shard int, cursor protocol.ScanCursor, count int64) ([]protocol.Entry, protocol.ScanCursor, error) {
	scan := x.scanKeys
	if len(cursor.Large) > 0 {
		scan = x.scanLarge
	}
	entries, next, err := scan(ctx, shard, cursor, count)
	if err != nil {
		return nil, protocol.ScanCursor{}, fmt.Errorf("scan owners of shard %d: %w", shard, err)
	}
	return entries, next, nil
}

// scanLarge returns the next page of a large set.
func (x *Index) scanLarge(ctx context.Context, shard int, cursor protocol.ScanCursor, count int64) ([]protocol.Entry, protocol.ScanCursor, error) {
	key := cursor.Large[0]
	members, next, err := x.scan(ctx, key, cursor.Members, count)
	if err != nil {
		return nil, cursor, err
	}
	cursor.Members = next
	if next == 0 {
		cursor.Large = cursor.Large[1:]
	}
	return decodeOwned(strings.TrimPrefix(key, x.ownerPrefix(shard)), members), cursor, nil
}

// scanKeys looks at the next keys and reads the sets that fit into the page. The next pages read the others.
func (x *Index) scanKeys(ctx context.Context, shard int, cursor protocol.ScanCursor, count int64) ([]protocol.Entry, protocol.ScanCursor, error) {
	keys, next, err := x.ownerKeys(ctx, shard, cursor.Keys, count)
	if err != nil {
		return nil, cursor, err
	}
	sizes := make([]*redis.IntCmd, len(keys))
	p := x.client.Pipeline()
	for i, key := range keys {
		sizes[i] = p.ZCard(ctx, key)
	}
	if _, err := p.Exec(ctx); err != nil {
		return nil, cursor, err
	}
	cursor = protocol.ScanCursor{Keys: next}
	sets, room := map[string]*redis.ZSliceCmd{}, count
	for i, key := range keys {
		if room -= sizes[i].Val(); room < 0 {
			room += sizes[i].Val()
			cursor.Large = append(cursor.Large, key)
			continue
		}
		sets[key] = p.ZRangeWithScores(ctx, key, 0, count-1) // if the set has grown meanwhile, the next walk reads the new members
	}
	if _, err := p.Exec(ctx); err != nil {
		return nil, cursor, err
	}
	var entries []protocol.Entry
	for key, set := range sets {
		entries = append(entries, decodeOwned(strings.TrimPrefix(key, x.ownerPrefix(shard)), set.Val())...)
	}
	return entries, cursor, nil
}

// ownerKeys walks the keys of the shard's server and returns those of owner sets.
func (x *Index) ownerKeys(ctx context.Context, shard int, cursor uint64, count int64) (keys []string, next uint64, err error) {
	client, err := x.master(ctx, x.dueKey(shard))
	if err != nil {
		return nil, 0, err
	}
	for next = cursor; count > 0; count -= scanCount {
		var some []string
		some, next, err = client.Scan(ctx, next, x.ownerPattern(shard), min(count, scanCount)).Result()
		if err != nil {
			return nil, 0, err
		}
		keys = append(keys, some...)
		if next == 0 {
			break
		}
	}
	return keys, next, nil
}

// decodeOwned decodes the members of an owner's set.
func decodeOwned(owner string, members []redis.Z) []protocol.Entry {
	entries := make([]protocol.Entry, 0, len(members))
	for _, z := range members {
		member, _ := z.Member.(string)
		entries = append(entries, checkOwner(owner, decode(member, z.Score)))
	}
	return entries
}

// checkOwner sets the owner of an entry of an owner's set, and Err if the member names another owner.
func checkOwner(owner string, e protocol.Entry) protocol.Entry {
	if e.Err == nil && e.Owner != owner {
		e = protocol.Entry{Member: e.Member, Score: e.Score, Err: fmt.Errorf("of owner %q: %w of %q", e.Owner, errMember, owner)}
	}
	e.Owner = owner
	return e
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
