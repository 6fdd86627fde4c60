//go:build cluster

package index_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
)

const clusterShards = 16

func openCluster(t *testing.T) (*pipelinetest.RedisCluster, *index.Index) {
	t.Helper()
	servers := pipelinetest.OwnRedisCluster(t)
	return servers, open(t, index.Config{Mode: index.Cluster, Addrs: servers.Addrs()})
}

// spread returns one task for each shard n, due in n milliseconds.
func spread() []task.Task {
	var all []task.Task
	for s := range clusterShards {
		p := pending(fmt.Sprintf("owner-%d", s%3), int64(s), 1)
		p.Shard = s
		all = append(all, p)
	}
	return all
}

func claimAll(t *testing.T, x *index.Index, tasks []task.Task) {
	t.Helper()
	for _, p := range tasks {
		c, err := x.Claim(t.Context(), p.Shard, 1, at(1e6), 0, 9, nil)
		pipelinetest.Must(t, err)
		diff(t, fmt.Sprintf("claim of shard %d", p.Shard), c.Entries, entries(p))
	}
}

func TestClusterConformance(t *testing.T) {
	t.Parallel()
	_, x := openCluster(t)
	all := spread()
	put(t, x, all...)
	for i, s := range standings(t, x, all...) {
		diff(t, "standing", s, both(all[i]))
		diff(t, "due", scanDue(t, x, i), entries(all[i]))
		diff(t, "owners", scanOwners(t, x, i), entries(all[i]))
		listed, _, err := worldtest.OwnerEntries(t.Context(), x, i, all[i].Owner)
		pipelinetest.Must(t, err)
		diff(t, "owner", listed, entries(all[i]))
		token, err := x.BeginRebuild(t.Context(), i)
		pipelinetest.Must(t, err)
		ok, err := x.EndRebuild(t.Context(), i, token)
		pipelinetest.Must(t, err)
		diff(t, "rebuild", ok, true)
	}
	marked, err := x.Marked(t.Context(), clusterShards+1)
	pipelinetest.Must(t, err)
	diff(t, "marked", strings.Count(fmt.Sprint(marked), "true"), clusterShards)

	var repairs []protocol.Repair
	for i, p := range all {
		c, err := x.Claim(t.Context(), p.Shard, 1, at(1e6), 0, 9, entries(p))
		pipelinetest.Must(t, err)
		diff(t, "claim after ack", c, protocol.Claim{Marked: true})
		all[i] = moved(p, 7, 2)
		seen := protocol.Standing{Due: protocol.NoScore, Owner: protocol.ScoreOf(p)}
		repairs = append(repairs, protocol.Repair{Task: p, Seen: seen, Right: both(all[i])})
	}
	diff(t, "repaired", repair(t, x, repairs...), clusterShards)
	diff(t, "repaired again", repair(t, x, repairs...), 0)

	warning, err := x.CheckPolicy(t.Context())
	pipelinetest.Must(t, err)
	diff(t, "warning", warning, "")
	identity, err := x.Identity(t.Context())
	pipelinetest.Must(t, err)
	diff(t, "masters", len(strings.Fields(identity)), 3)
}

func TestClusterNodesLoseTheirScriptsOneByOne(t *testing.T) {
	t.Parallel()
	servers, x := openCluster(t)
	all := spread()
	put(t, x, all...)
	for round, addr := range servers.Addrs() {
		node := redis.NewClient(&redis.Options{Addr: addr})
		pipelinetest.Must(t, node.ScriptFlush(t.Context()).Err())
		pipelinetest.Must(t, node.Close())
		for i, p := range all {
			all[i] = moved(p, int64(round), int64(round)+2)
		}
		put(t, x, all...)
		claimAll(t, x, all)
	}
}

func TestClusterWakes(t *testing.T) {
	t.Parallel()
	_, x := openCluster(t)
	in := wakes(t, x, clusterShards)
	all := spread()
	put(t, x, all...)
	got := map[wake]int{}
	for len(got) < clusterShards {
		w := <-in
		got[w]++
		diff(t, "wake", w, wake{w.Shard, all[w.Shard].RunAt})
	}
	put(t, x, all...)
	select {
	case w := <-in:
		t.Errorf("a repeat woke: %v", w)
	default:
	}
}

// A slot moves while the client knows only its old node: scripts, lists and wake-ups follow the slot.
func TestClusterFollowsAMovedSlot(t *testing.T) {
	t.Parallel()
	servers, x := openCluster(t)
	all := spread()
	put(t, x, all...)
	in := wakes(t, x, clusterShards)
	for shard := range 4 {
		migrate(t, x, servers, shard)
	}
	for i, p := range all {
		all[i] = moved(p, int64(i), 2)
	}
	put(t, x, all...)
	claimAll(t, x, all)
	for i, s := range standings(t, x, all...) {
		diff(t, "standing", s, both(all[i]))
		diff(t, "owners", scanOwners(t, x, i), entries(all[i]))
	}
	for shard := range 4 {
		subscribed(t, x, shard, in)
	}
}

// migrate moves the shard's slot, with its keys, to the next node.
func migrate(t *testing.T, x *index.Index, servers *pipelinetest.RedisCluster, shard int) {
	t.Helper()
	ctx := t.Context()
	var nodes []*redis.Client
	var ids []string
	for _, addr := range servers.Addrs() {
		node := redis.NewClient(&redis.Options{Addr: addr})
		defer func() { _ = node.Close() }()
		id, err := node.ClusterMyID(ctx).Result()
		pipelinetest.Must(t, err)
		nodes, ids = append(nodes, node), append(ids, id)
	}
	slot, err := nodes[0].ClusterKeySlot(ctx, x.Key(shard, "due")).Result()
	pipelinetest.Must(t, err)
	from := int(slot) / (16384/3 + 1)
	to := (from + 1) % len(nodes)
	pipelinetest.Must(t, nodes[to].Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[from]).Err())
	pipelinetest.Must(t, nodes[from].Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[to]).Err())
	keys, err := nodes[from].ClusterGetKeysInSlot(ctx, int(slot), 100).Result()
	pipelinetest.Must(t, err)
	host, port, _ := strings.Cut(servers.Addrs()[to], ":")
	for _, key := range keys {
		pipelinetest.Must(t, nodes[from].Migrate(ctx, host, port, key, 0, limit).Err())
	}
	for i := range nodes {
		node := nodes[(to+i)%len(nodes)] // the new owner first
		pipelinetest.Must(t, node.Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", ids[to]).Err())
	}
}

func TestClusterNodeRestarts(t *testing.T) {
	t.Parallel()
	servers, x := openCluster(t)
	all := spread()
	put(t, x, all...)
	in := wakes(t, x, clusterShards)
	pipelinetest.Must(t, servers.Nodes[1].Kill())
	if err := x.Put(t.Context(), all); !index.Away(err) {
		t.Errorf("put with a node down: %v, want it to be away", err)
	}
	pipelinetest.Must(t, servers.Nodes[1].Start())
	eventually(t, "put", func(ctx context.Context) bool { return x.Put(ctx, all) == nil })
	claimAll(t, x, all)
	for shard := range clusterShards {
		subscribed(t, x, shard, in)
	}
}

func TestClusterShardsAsAnOperatorSeesThem(t *testing.T) {
	t.Parallel()
	_, x := openCluster(t)
	all := spread()
	put(t, x, all...)
	for i := range all {
		_, err := x.BeginRebuild(t.Context(), i)
		pipelinetest.Must(t, err)
	}
	pipelinetest.Must(t, x.Unmark(t.Context(), []int{1, 7}))
	shards, err := x.Shards(t.Context(), clusterShards)
	pipelinetest.Must(t, err)
	owners, err := x.OwnerSets(t.Context(), clusterShards)
	pipelinetest.Must(t, err)
	for i, p := range all {
		want := index.Shard{Due: 1, Oldest: p.RunAt, Marker: index.MarkerBuilding}
		if i == 1 || i == 7 {
			want.Marker = index.MarkerAbsent
		}
		diff(t, fmt.Sprintf("shard %d", i), shards[i], want)
		diff(t, fmt.Sprintf("owners of shard %d", i), owners[i], int64(1))
	}
}
