package index

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/protocol"
)

// The generation marker is one of these prefixes and a random token, which identifies the rebuild, so that the end of a
// rebuild can be repeated.
const (
	building = "building:"
	complete = "complete:"
)

// Marked reports for each shard whether its generation marker is complete: if not, the shard's memory was lost, or its
// rebuild has not ended. Except in Cluster it is one command. A protocol.ShardsError names the shards that did not answer;
// they count as marked.
func (x *Index) Marked(ctx context.Context, shards int) ([]bool, error) {
	values, err := x.markers(ctx, shards)
	failed, partial := protocol.FailedShards(err)
	if err != nil && !partial {
		return nil, fmt.Errorf("read generation markers: %w", err)
	}
	marked := make([]bool, shards)
	for s := range marked {
		value, _ := values[s].(string) // nil without a marker
		marked[s] = strings.HasPrefix(value, complete) || failed[s] != nil
	}
	return marked, err
}

// markers reads all markers with one command, or in Cluster with one pipeline to each node.
func (x *Index) markers(ctx context.Context, shards int) ([]any, error) {
	keys := make([]string, shards)
	for s := range keys {
		keys[s] = x.genKey(s)
	}
	if !x.sharded() {
		return x.client.MGet(ctx, keys...).Result()
	}
	p := x.client.Pipeline()
	answers := make([]*redis.SliceCmd, shards)
	for s, key := range keys {
		answers[s] = p.MGet(ctx, key)
	}
	_, _ = p.Exec(ctx) // each answer has its own error
	values, failed := make([]any, shards), map[int]error{}
	for s, a := range answers {
		if err := a.Err(); err != nil || len(a.Val()) != 1 {
			failed[s] = fmt.Errorf("marker of shard %d: %w", s, cmp.Or(err, errUnanswered))
			continue
		}
		values[s] = a.Val()[0]
	}
	if len(failed) > 0 {
		return values, &protocol.ShardsError{Shards: failed}
	}
	return values, nil
}

// errUnanswered is the error of a command that a pipeline never sent.
var errUnanswered = errors.New("no answer")

// BeginRebuild marks the shard as building and returns the rebuild's token. From now on the shard counts as not marked,
// and an earlier rebuild can't end.
func (x *Index) BeginRebuild(ctx context.Context, shard int) (string, error) {
	token := rand.Text()
	return token, x.run(ctx, &call{
		script: x.scripts.begin, shard: shard,
		keys: []string{x.genKey(shard)}, args: []any{building + token},
	})
}

// EndRebuild sets the shard's generation marker if the token is still there. False means that the shard's memory was lost
// or another rebuild began during this rebuild: its entries may be lost, and it has to start over.
func (x *Index) EndRebuild(ctx context.Context, shard int, token string) (bool, error) {
	c := &call{
		script: x.scripts.finish, shard: shard,
		keys: []string{x.genKey(shard)}, args: []any{building + token, complete + token},
	}
	if err := x.run(ctx, c); err != nil {
		return false, err
	}
	n, err := c.reply.Int()
	if err != nil {
		return false, fmt.Errorf("read end of rebuild of shard %d: %w", shard, err)
	}
	return n == 1, nil
}
