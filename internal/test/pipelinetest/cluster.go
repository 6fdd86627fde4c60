package pipelinetest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	nodes     = 3
	hashSlots = 16384
)

// RedisCluster is a Redis Cluster of three masters, with or without replicas. Nodes keep their identity and slots over
// stops and starts, and nothing else.
type RedisCluster struct{ Nodes []*RedisServer }

// Addrs returns the nodes' addresses, "127.0.0.1:port".
func (c *RedisCluster) Addrs() []string {
	var addrs []string
	for _, node := range c.Nodes {
		addrs = append(addrs, node.Addr())
	}
	return addrs
}

// OwnRedisCluster starts a Redis Cluster of three for this test alone, with further arguments of the nodes' command
// lines, and returns once every node sees all slots served.
func OwnRedisCluster(t testing.TB, args ...string) *RedisCluster {
	t.Helper()
	needServers(t)
	return startRedisCluster(t, nodes, args)
}

// startRedisCluster starts a cluster of count nodes, of which the first three share the slots.
func startRedisCluster(t testing.TB, count int, args []string) *RedisCluster {
	t.Helper()
	c := &RedisCluster{}
	for range count {
		s, err := startServer("", clusterRecipe(args))
		Must(t, err)
		Own(t, s)
		c.Nodes = append(c.Nodes, &RedisServer{s})
	}
	Must(t, c.join())
	return c
}

func clusterRecipe(args []string) recipe {
	r := redisRecipe(args)
	r.name, r.ports = "redis-node", 2
	r.command = func(data string, ports []*portLock) (*exec.Cmd, error) {
		base := []string{
			"--port", strconv.Itoa(ports[0].port), "--cluster-port", strconv.Itoa(ports[1].port),
			"--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--save", "", "--appendonly", "no",
		}
		return redisCommand(data, append(base, args...))
	}
	return r
}

// join gives each master its share of the slots, introduces the nodes and waits until all agree.
func (c *RedisCluster) join() error {
	ctx, cancel := context.WithTimeout(context.Background(), readyLimit)
	defer cancel()
	host := c.Nodes[0].ports
	for i, node := range c.Nodes {
		if i < nodes {
			first, last := i*hashSlots/nodes, (i+1)*hashSlots/nodes-1
			if err := node.do(func(r *redis.Client) error { return r.ClusterAddSlotsRange(ctx, first, last).Err() }); err != nil {
				return fmt.Errorf("give slots to %s: %w", node.Addr(), err)
			}
		}
		if err := node.do(func(r *redis.Client) error {
			return r.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", host[0].port, host[1].port).Err()
		}); err != nil {
			return fmt.Errorf("introduce %s: %w", node.Addr(), err)
		}
	}
	for _, node := range c.Nodes {
		if err := node.awaitCluster(ctx, len(c.Nodes)); err != nil {
			return err
		}
	}
	return nil
}

// awaitCluster polls until the node sees all nodes and all slots.
func (s *RedisServer) awaitCluster(ctx context.Context, count int) error {
	all := []string{"cluster_state:ok", fmt.Sprintf("cluster_size:%d\r", nodes), fmt.Sprintf("cluster_known_nodes:%d\r", count)}
	for {
		var info string
		err := s.do(func(r *redis.Client) (err error) {
			info, err = r.ClusterInfo(ctx).Result()
			return err
		})
		if err == nil && !slices.ContainsFunc(all, func(line string) bool { return !strings.Contains(info, line) }) {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("node %s does not see the cluster: %w\n%s", s.Addr(), errors.Join(ctx.Err(), err), info)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// do runs one command on a connection of its own.
func (s *RedisServer) do(command func(*redis.Client) error) error {
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), PoolSize: 1})
	defer func() { _ = client.Close() }()
	return command(client)
}

// ZooKeeperEnsemble is a ZooKeeper of three nodes. A single node's Start waits for a quorum: start two together.
type ZooKeeperEnsemble struct{ Nodes []*ZooKeeperServer }

// Addrs returns the nodes' addresses, "127.0.0.1:port".
func (e *ZooKeeperEnsemble) Addrs() []string {
	var addrs []string
	for _, node := range e.Nodes {
		addrs = append(addrs, node.Addr())
	}
	return addrs
}

// Start starts the nodes that are stopped, side by side, and returns once each serves.
func (e *ZooKeeperEnsemble) Start() error {
	var starts sync.WaitGroup
	errs := make([]error, len(e.Nodes))
	for i, node := range e.Nodes {
		starts.Go(func() { errs[i] = node.Start() })
	}
	starts.Wait()
	return errors.Join(errs...)
}

// Leader returns the node that leads the ensemble, or an error when none does just now.
func (e *ZooKeeperEnsemble) Leader() (*ZooKeeperServer, error) {
	for _, node := range e.Nodes {
		if !node.Running() {
			continue
		}
		if state, err := node.state(); err == nil && state == "leader" {
			return node, nil
		}
	}
	return nil, errors.New("no node leads the ensemble")
}

// OwnZooKeeperEnsemble starts a ZooKeeper of three for this test alone, with further lines of zoo.cfg.
func OwnZooKeeperEnsemble(t testing.TB, lines ...string) *ZooKeeperEnsemble {
	t.Helper()
	needServers(t)
	e := &ZooKeeperEnsemble{}
	for id := 1; id <= nodes; id++ {
		s, err := newServer("", e.recipe(id, lines))
		Must(t, err)
		Own(t, s)
		e.Nodes = append(e.Nodes, &ZooKeeperServer{s})
	}
	Must(t, e.Start())
	return e
}

// recipe is a node's, which knows the others only when it starts.
func (e *ZooKeeperEnsemble) recipe(id int, lines []string) recipe {
	return recipe{
		name:  "zookeeper-node",
		ports: 3, // clients, followers, elections
		fill:  func(data string, _ []*portLock) error { return writeMyID(data, id) },
		command: func(data string, ports []*portLock) (*exec.Cmd, error) {
			cfg := []string{fmt.Sprintf("clientPort=%d", ports[0].port), "initLimit=40", "syncLimit=8"}
			for i, node := range e.Nodes {
				cfg = append(cfg, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", i+1, node.ports[1].port, node.ports[2].port))
			}
			return zooKeeperCommand(data, append(cfg, lines...))
		},
		ready: zooKeeperReady,
	}
}
