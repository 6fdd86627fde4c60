package chaos_test

import (
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

const replacedWithin = 15 * time.Second

// replicaRows lose a Redis server that has a replica, which then takes its place.
func replicaRows() []entry { return []entry{promotedRow(), clusterRow()} }

// promotedRow has one replica, which an operator promotes when it has missed the last writes.
func promotedRow() entry {
	var replica *pipelinetest.RedisReplica
	var front, link *pipelinetest.ToxicProxy // the way of the processes, and the replica's own, to the primary
	return entry{
		n: 10, fault: "Redis replaced by a replica that has missed the last writes",
		setup: setup{servers: func(t *testing.T, w *world) {
			t.Helper()
			w.redis = pipelinetest.OwnRedis(t)
			front, link = pipelinetest.Proxy(t, w.redis.Addr()), pipelinetest.Proxy(t, w.redis.Addr())
			replica = pipelinetest.OwnRedisReplica(t, link.Addr())
			w.Redis = front.Addr()
		}},
		run: func(t *testing.T, d *drill) {
			t.Helper()
			d.fault(t, "promoted", replacedWithin, func() {
				link.Cut()
				before := d.count(t, `SELECT COUNT(*) FROM pet_journal`)
				time.Sleep(2 * time.Second) // of writes that the replica misses
				if missed := d.count(t, `SELECT COUNT(*) FROM pet_journal`) - before; missed < 100 {
					t.Errorf("the replica missed only %d changes", missed)
				}
				pipelinetest.Must(t, d.redis.Kill())
				pipelinetest.Must(t, replica.Promote())
				front.Redirect(replica.Addr())
			})
		},
	}
}

// clusterRow has a Redis Cluster that replaces its primaries by itself.
func clusterRow() entry {
	var cluster *pipelinetest.RedisCluster
	return entry{
		n: 10, fault: "a Redis Cluster loses a primary (cluster-node-timeout 3 s)",
		setup: setup{rules: []string{"DUETIME_REDIS__MODE=cluster"}, servers: func(t *testing.T, w *world) {
			t.Helper()
			cluster = pipelinetest.OwnReplicatedRedisCluster(t, 3*time.Second)
			w.Redis = strings.Join(cluster.Addrs(), ",")
		}},
		run: func(t *testing.T, d *drill) {
			t.Helper()
			const key = "duetime:{0}:due"
			d.fault(t, "primary lost", replacedWithin, func() {
				primary, err := cluster.Primary(key)
				pipelinetest.Must(t, err)
				pipelinetest.Must(t, primary.Kill())
			})
			d.await(t, "another node to take the lost primary's place", replacedWithin+d.slack, func() bool { // looks heal the tasks before
				next, err := cluster.Primary(key)
				return err == nil && next.Running()
			})
		},
	}
}
