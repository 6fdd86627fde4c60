package pipelinetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisReplica is a redis-server that follows another until it is promoted.
type RedisReplica struct {
	*RedisServer

	mu sync.Mutex
	of string // empty: promoted
}

// OwnRedisReplica starts a redis-server for this test alone that replicates the one at the address of, which may be a
// Proxy's, with further arguments of its command line. It returns once the replica has a first copy.
func OwnRedisReplica(t testing.TB, of string, args ...string) *RedisReplica {
	t.Helper()
	needServers(t)
	r := &RedisReplica{of: of}
	s, err := startServer("", r.recipe(args))
	Must(t, err)
	Own(t, s)
	r.RedisServer = &RedisServer{s}
	Must(t, r.awaitSync())
	return r
}

func (r *RedisReplica) recipe(args []string) recipe {
	plain := redisRecipe(args)
	follower := plain
	follower.name = "redis-replica"
	follower.command = func(data string, ports []*portLock) (*exec.Cmd, error) {
		cmd, err := plain.command(data, ports)
		if err != nil {
			return nil, err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.of != "" {
			host, port, err := net.SplitHostPort(r.of)
			if err != nil {
				return nil, fmt.Errorf("follow %s: %w", r.of, err)
			}
			cmd.Args = append(cmd.Args, "--replicaof", host, port)
		}
		return cmd, nil
	}
	return follower
}

// Promote makes the replica a primary with the data that it has, for good: a restart doesn't change that.
func (r *RedisReplica) Promote() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), readyLimit)
	defer cancel()
	if err := r.do(func(c *redis.Client) error { return c.ReplicaOf(ctx, "NO", "ONE").Err() }); err != nil {
		return fmt.Errorf("promote %s: %w", r.Addr(), err)
	}
	r.of = ""
	return nil
}

// awaitSync polls until the server, a replica, has a copy of its primary's data and follows it.
func (s *RedisServer) awaitSync() error {
	ctx, cancel := context.WithTimeout(context.Background(), readyLimit)
	defer cancel()
	for {
		var info string
		err := s.do(func(c *redis.Client) (err error) {
			info, err = c.Info(ctx, "replication").Result()
			return err
		})
		if err == nil && strings.Contains(info, "master_link_status:up") {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("replica %s has no copy: %w\n%s", s.Addr(), errors.Join(ctx.Err(), err), info)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
