package pipelinetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// MasterName is how the sentinels of RedisSentinels call their master.
const MasterName = "tasks"

// RedisSentinels is a master, a replica and three sentinels, of which two must agree that the master is down.
type RedisSentinels struct {
	Master    *RedisServer // at the start
	Replica   *RedisReplica
	Sentinels []*RedisServer
}

// Addrs returns the sentinels' addresses, "127.0.0.1:port".
func (s *RedisSentinels) Addrs() []string {
	var addrs []string
	for _, sentinel := range s.Sentinels {
		addrs = append(addrs, sentinel.Addr())
	}
	return addrs
}

// OwnRedisSentinels starts a Sentinel deployment for this test alone, with further lines of the sentinels' configuration. A
// master that is silent for downAfter is replaced. It returns once the sentinels know each other and the replica.
func OwnRedisSentinels(t testing.TB, downAfter time.Duration, lines ...string) *RedisSentinels {
	t.Helper()
	needServers(t)
	s := &RedisSentinels{Master: OwnRedis(t)}
	s.Replica = OwnRedisReplica(t, s.Master.Addr())
	for range nodes {
		server, err := startServer("", s.recipe(downAfter, lines))
		Must(t, err)
		Own(t, server)
		s.Sentinels = append(s.Sentinels, &RedisServer{server})
	}
	for _, sentinel := range s.Sentinels {
		Must(t, sentinel.awaitAcquaintance())
	}
	return s
}

func (s *RedisSentinels) recipe(downAfter time.Duration, lines []string) recipe {
	return recipe{
		name:  "redis-sentinel",
		ports: 1,
		fill: func(data string, ports []*portLock) error {
			host, port, _ := strings.Cut(s.Master.Addr(), ":")
			all := append([]string{
				"bind 127.0.0.1", "dir " + data, "port " + strconv.Itoa(ports[0].port),
				fmt.Sprintf("sentinel monitor %s %s %s 2", MasterName, host, port),
				fmt.Sprintf("sentinel down-after-milliseconds %s %d", MasterName, downAfter.Milliseconds()),
				fmt.Sprintf("sentinel failover-timeout %s 10000", MasterName),
			}, lines...)
			return os.WriteFile(filepath.Join(data, "sentinel.conf"), []byte(strings.Join(all, "\n")+"\n"), 0o600)
		},
		command: func(data string, _ []*portLock) (*exec.Cmd, error) {
			path, err := redisProgram()
			if err != nil {
				return nil, err
			}
			return exec.Command(path, filepath.Join(data, "sentinel.conf"), "--sentinel"), nil //nolint:gosec,noctx // as redisCommand
		},
		ready: redisReady,
	}
}

// awaitAcquaintance polls until the sentinel knows the two others and the replica. One that wants a password is not asked.
func (s *RedisServer) awaitAcquaintance() error {
	ctx, cancel := context.WithTimeout(context.Background(), readyLimit)
	defer cancel()
	client := redis.NewSentinelClient(&redis.Options{Addr: s.Addr(), PoolSize: 1})
	defer func() { _ = client.Close() }()
	for {
		facts, err := client.Master(ctx, MasterName).Result()
		if err == nil && facts["num-other-sentinels"] == "2" && facts["num-slaves"] == "1" || redis.HasErrorPrefix(err, "NOAUTH") {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("sentinel %s does not know the others: %w\n%v", s.Addr(), errors.Join(ctx.Err(), err), facts)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
