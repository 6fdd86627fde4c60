//go:build cluster

package pipelinetest_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/pipelinetest"
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
