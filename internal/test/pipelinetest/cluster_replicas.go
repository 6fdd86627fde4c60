package pipelinetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// OwnReplicatedRedisCluster starts a Redis Cluster for this test alone of three primaries, Nodes 0 to 2, and a replica
// of each, Nodes 3 to 5, with further arguments of the nodes' command lines. A primary that is silent for nodeTimeout
// is replaced by its replica. It returns once every node sees all slots served and each replica has a copy.
func OwnReplicatedRedisCluster(t testing.TB, nodeTimeout time.Duration, args ...string) *RedisCluster {
	t.Helper()
	needServers(t)
	timeout := []string{"--cluster-node-timeout", strconv.FormatInt(nodeTimeout.Milliseconds(), 10)}
	c := startRedisCluster(t, 2*nodes, append(timeout, args...))
	for i, replica := range c.Nodes[nodes:] {
		Must(t, replica.follow(c.Nodes[i]))
	}
	for _, replica := range c.Nodes[nodes:] {
		Must(t, replica.awaitSync())
	}
	return c
}

// follow makes one node of a cluster another's replica.
func (s *RedisServer) follow(primary *RedisServer) error {
	ctx, cancel := context.WithTimeout(context.Background(), readyLimit)
	defer cancel()
	var id string
	if err := primary.do(func(r *redis.Client) (err error) {
		id, err = r.ClusterMyID(ctx).Result()
		return err
	}); err != nil {
		return fmt.Errorf("ask %s for its id: %w", primary.Addr(), err)
	}
	if err := s.do(func(r *redis.Client) error { return r.ClusterReplicate(ctx, id).Err() }); err != nil {
		return fmt.Errorf("make %s a replica: %w", s.Addr(), err)
	}
	return nil
}

// Primary returns the running node that serves key as its primary, or an error when none does just now.
func (c *RedisCluster) Primary(key string) (*RedisServer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var primary *RedisServer
	last := -1
	for _, node := range c.Nodes {
		if !node.Running() {
			continue
		}
		var slot int64
		var view string
		if err := node.do(func(r *redis.Client) (err error) {
			if slot, err = r.ClusterKeySlot(ctx, key).Result(); err != nil {
				return err
			}
			view, err = r.ClusterNodes(ctx).Result()
			return err
		}); err != nil {
			return nil, fmt.Errorf("ask %s for the cluster: %w", node.Addr(), err)
		}
		// A primary that came back after it was replaced takes itself for one until it hears of the later epoch.
		if epoch := servesSince(view, int(slot)); epoch > last {
			primary, last = node, epoch
		}
	}
	if primary == nil {
		return nil, errors.New("no node serves " + key)
	}
	return primary, nil
}

// servesSince reads a node's answer to CLUSTER NODES: the epoch in which the node itself took slot as a primary, or -1.
func servesSince(view string, slot int) int {
	for line := range strings.Lines(view) {
		// id, address, flags, primary's id, ping, pong, epoch, link, slots
		fields := strings.Fields(line)
		if len(fields) < 9 || !strings.Contains(fields[2], "myself,master") {
			continue
		}
		for _, slots := range fields[8:] {
			first, last, isRange := strings.Cut(slots, "-")
			if !isRange {
				last = first
			}
			from, err1 := strconv.Atoi(first)
			to, err2 := strconv.Atoi(last)
			epoch, err3 := strconv.Atoi(fields[6])
			if errors.Join(err1, err2, err3) == nil && from <= slot && slot <= to {
				return epoch
			}
		}
	}
	return -1
}
