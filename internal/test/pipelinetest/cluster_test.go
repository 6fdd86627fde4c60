//go:build cluster

package pipelinetest_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestClusterServesAllSlots(t *testing.T) {
	t.Parallel()
	cluster := pipelinetest.OwnRedisCluster(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
	defer func() { _ = client.Close() }()
	for _, key := range []string{"{1}a", "{2}a", "{3}a", "{4}a", "{5}a", "{6}a", "{7}a", "{8}a"} {
		if err := client.Set(t.Context(), key, "v", 0).Err(); err != nil {
			t.Errorf("set %s: %v", key, err)
		}
	}
	pipelinetest.Must(t, cluster.Nodes[1].Kill())
	pipelinetest.Must(t, cluster.Nodes[1].Start())
	pipelinetest.Await(t, "the cluster to serve again", func() bool {
		return client.Set(t.Context(), "{1}a", "v", 0).Err() == nil && client.Set(t.Context(), "{3}a", "v", 0).Err() == nil
	})
}

func TestClusterReplacesAPrimary(t *testing.T) {
	t.Parallel()
	cluster := pipelinetest.OwnReplicatedRedisCluster(t, 3*time.Second)
	// A client that only finds its primary gone asks nobody where the slots are, until it is time to ask again.
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), ClusterStateReloadInterval: time.Second})
	defer func() { _ = client.Close() }()
	const key = "{1}a"
	old, err := cluster.Primary(key)
	pipelinetest.Must(t, err)
	direct := redis.NewClient(&redis.Options{Addr: old.Addr(), PoolSize: 1}) // WAIT is about its own connection's writes
	defer func() { _ = direct.Close() }()
	pipelinetest.Must(t, direct.Set(t.Context(), key, "before", 0).Err())
	pipelinetest.Must(t, direct.Wait(t.Context(), 1, 0).Err())
	if !slices.Contains(cluster.Nodes[:3], old) {
		t.Error("at first a replica is the primary")
	}
	pipelinetest.Must(t, old.Kill())
	var next *pipelinetest.RedisServer
	pipelinetest.Await(t, "a replica to take over", func() bool {
		next, err = cluster.Primary(key)
		return err == nil
	})
	if !slices.Contains(cluster.Nodes[3:], next) {
		t.Error("no replica took over")
	}
	pipelinetest.Await(t, "the cluster to serve again", func() bool {
		value, err := client.Get(t.Context(), key).Result()
		if err == nil && value != "before" {
			t.Fatalf("the replica has %q", value)
		}
		return err == nil
	})
	pipelinetest.Must(t, old.Start())
	pipelinetest.Await(t, "the old primary to follow the new one", func() bool {
		info, err := redisInfo(t, old.Addr())
		return err == nil && strings.Contains(info, "role:slave") && strings.Contains(info, "master_link_status:up")
	})
	if got, err := cluster.Primary(key); err != nil || got != next {
		t.Errorf("after the old primary's return: got %v, %v, want %s", got, err, next.Addr())
	}
}

func redisInfo(t *testing.T, addr string) (string, error) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }()
	return client.Info(t.Context(), "replication").Result()
}

func TestEnsembleOutlivesItsLeader(t *testing.T) {
	t.Parallel()
	ensemble := pipelinetest.OwnZooKeeperEnsemble(t)
	conn, _, err := zk.Connect(ensemble.Addrs(), 5*time.Second, zk.WithLogger(silent{}), zk.WithLogInfo(false))
	pipelinetest.Must(t, err)
	defer conn.Close()
	node := "/" + pipelinetest.Namespace(t)
	_, err = conn.Create(node, nil, 0, zk.WorldACL(zk.PermAll))
	pipelinetest.Must(t, err)

	leader, err := ensemble.Leader()
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, leader.Kill())
	pipelinetest.Await(t, "the node to be seen through the other two", func() bool {
		found, _, err := conn.Exists(node)
		return err == nil && found
	})
	pipelinetest.Must(t, ensemble.Start())
}
