//go:build cluster

package index_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// next returns the tasks' next versions.
func next(all []task.Task) []task.Task {
	out := make([]task.Task, len(all))
	for i, p := range all {
		out[i] = moved(p, int64(i)+1000, p.Version+1)
	}
	return out
}

// wantOnly checks that the error names exactly these shards, and that it counts as away.
func wantOnly(t *testing.T, what string, err error, shards map[int]bool) {
	t.Helper()
	failed, ok := protocol.FailedShards(err)
	got := map[int]bool{}
	for shard := range failed {
		got[shard] = true
	}
	if !ok || !index.Away(err) || index.IsRefused(err) {
		t.Errorf("%s: %v, want some shards to be away", what, err)
	}
	diff(t, what+": shards that failed", got, shards)
}

// wantTheOthers checks that every call for many shards does its work in those that answer.
func wantTheOthers(t *testing.T, x *index.Index, all []task.Task, failing map[int]bool) {
	t.Helper()
	all = next(all)
	wantOnly(t, "put", x.Put(t.Context(), all), failing)
	stand, err := x.Standings(t.Context(), all)
	wantOnly(t, "standings", err, failing)
	var repairs []protocol.Repair
	for i, p := range all {
		if failing[p.Shard] {
			repairs = append(repairs, protocol.Repair{Task: p, Seen: absent, Right: both(p)})
			continue
		}
		diff(t, "standing", stand[i], both(p))
		repairs = append(repairs, protocol.Repair{Task: p, Seen: both(p), Right: both(moved(p, 7, p.Version+1))})
	}
	n, err := x.Repair(t.Context(), repairs)
	wantOnly(t, "repair", err, failing)
	diff(t, "repaired", n, len(all)-len(failing))
	var fresh []task.Task
	for s := range clusterShards {
		p := pending("somebody", int64(s), 1)
		p.Shard = s
		fresh = append(fresh, p)
	}
	_, err = x.Fill(t.Context(), fresh)
	wantOnly(t, "fill", err, failing)
	for _, p := range fresh {
		if c, err := x.Claim(t.Context(), p.Shard, 1, at(1e6), 0, 9, nil); (err != nil) != failing[p.Shard] || err == nil && len(c.Entries) < 2 {
			t.Errorf("claim of shard %d: %v, %v", p.Shard, c.Entries, err)
		}
	}
}

// A slot is under migration, and its due set is at the new node already: its shard can't be served, all others can.
func TestClusterSlotUnderMigration(t *testing.T) {
	t.Parallel()
	servers, x := openCluster(t)
	all := spread()
	put(t, x, all...)
	const shard = 3
	migration, err := servers.BeginMigration(x.Key(shard, "due"), func(key string) bool { return strings.HasSuffix(key, ":due") })
	pipelinetest.Must(t, err)
	wantTheOthers(t, x, all, map[int]bool{shard: true})
	marked, err := x.Marked(t.Context(), clusterShards)
	pipelinetest.Must(t, err) // a command on a single key finds its node
	diff(t, "marked", len(marked), clusterShards)
	pipelinetest.Must(t, migration.End())
	all = next(next(next(all)))
	put(t, x, all...)
	for i, s := range standings(t, x, all...) {
		diff(t, "standing after the migration", s, both(all[i]))
	}
}

// One of three nodes is away: the shards of the two others are served.
func TestClusterNodeAway(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*pipelinetest.RedisServer) error{
		"killed": func(s *pipelinetest.RedisServer) error { return s.Kill() },
		"frozen": func(s *pipelinetest.RedisServer) error { return s.Freeze() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A node refuses everything while another one is away, unless it is configured to serve its own slots.
			servers := pipelinetest.OwnRedisCluster(t, "--cluster-require-full-coverage", "no")
			x := open(t, index.Config{Mode: index.Cluster, Addrs: servers.Addrs(), ReadTimeout: 300 * time.Millisecond})
			all := spread()
			put(t, x, all...)
			failing := map[int]bool{}
			for s := range clusterShards {
				if node, err := servers.Primary(x.Key(s, "due")); err == nil && node == servers.Nodes[1] {
					failing[s] = true
				}
			}
			pipelinetest.Must(t, lose(servers.Nodes[1]))
			wantTheOthers(t, x, all, failing)
			_, err := x.Marked(t.Context(), clusterShards)
			wantOnly(t, "marked", err, failing)
			identity, err := x.Identity(t.Context())
			pipelinetest.Must(t, err)
			diff(t, "masters that answer", len(strings.Fields(identity)), 2)
			if name == "frozen" {
				pipelinetest.Must(t, servers.Nodes[1].Thaw())
			} else {
				pipelinetest.Must(t, servers.Nodes[1].Start())
			}
			all = next(next(next(all)))
			eventually(t, "put", func(ctx context.Context) bool { return x.Put(ctx, all) == nil })
		})
	}
}
