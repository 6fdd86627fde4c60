package index

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/pkg/task"
)

// The generation marker's values begin with one of these; the rest is random, so that two rebuilds are told apart and
// the end of one can be repeated.
const (
	building = "building:"
	complete = "complete:"
)

// Marked tells for each of the shards 0 … shards-1 whether its generation marker stands: if not, the shard's memory was
// lost, or its rebuild has not ended. Outside of Cluster it is one command. A task.ShardsError names the shards that could
// not be asked; they count as marked.
func (x *Index) Marked(ctx context.Context, shards int) ([]bool, error) {
	values, err := x.markers(ctx, shards)
	failed, partial := task.FailedShards(err)
	if err != nil && !partial {
		return nil, fmt.Errorf("read generation markers: %w", err)
	}
	marked := make([]bool, shards)
	for s := range marked {
		value, _ := values[s].(string) // nil where there is none
		marked[s] = strings.HasPrefix(value, complete) || failed[s] != nil
	}
	return marked, err
}

// markers reads all at once where one node has them all, otherwise in one pipeline to each node.
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
		return values, &task.ShardsError{Shards: failed}
	}
	return values, nil
}

// errUnanswered is for a command that a pipeline never sent.
var errUnanswered = errors.New("no answer")

// BeginRebuild announces a rebuild of the shard and gives its token. From here on the shard counts as not marked, and
// a rebuild begun earlier can't end any more.
func (x *Index) BeginRebuild(ctx context.Context, shard int) (string, error) {
	token := rand.Text()
	return token, x.run(ctx, &call{
		script: x.scripts.begin, shard: shard,
		keys: []string{x.genKey(shard)}, args: []any{building + token},
	})
}

// EndRebuild sets the shard's generation marker if the token still stands. False means that the shard's memory was
// lost again, or another rebuild began, while this one was under way: what it put may be gone, and it has to start
// again.
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
