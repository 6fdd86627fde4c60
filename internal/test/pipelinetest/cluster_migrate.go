package pipelinetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// SlotMigration is a slot of a cluster on its way from one node to another, as redis-cli moves it.
type SlotMigration struct {
	cluster  *RedisCluster
	slot     int
	from, to *RedisServer
	ids      map[*RedisServer]string
}

// BeginMigration begins to move the slot of key to another node: of its keys only those that move picks. Until End, commands
// on some of both are answered by TRYAGAIN.
func (c *RedisCluster) BeginMigration(key string, move func(key string) bool) (*SlotMigration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readyLimit)
	defer cancel()
	from, err := c.Primary(key)
	if err != nil {
		return nil, err
	}
	m := &SlotMigration{cluster: c, from: from, ids: map[*RedisServer]string{}}
	m.to = c.Nodes[(slices.Index(c.Nodes, from)+1)%nodes]
	for _, node := range c.Nodes {
		if err := node.do(func(r *redis.Client) (err error) {
			m.ids[node], err = r.ClusterMyID(ctx).Result()
			return err
		}); err != nil {
			return nil, fmt.Errorf("ask %s for its id: %w", node.Addr(), err)
		}
	}
	err = errors.Join(
		from.do(func(r *redis.Client) error {
			slot, err := r.ClusterKeySlot(ctx, key).Result()
			m.slot = int(slot)
			return err
		}),
		m.set(ctx, m.to, "IMPORTING", from),
		m.set(ctx, from, "MIGRATING", m.to),
		m.move(ctx, move),
	)
	return m, err
}

// End moves what is left and gives the slot to the other node.
func (m *SlotMigration) End() error {
	ctx, cancel := context.WithTimeout(context.Background(), readyLimit)
	defer cancel()
	if err := m.move(ctx, func(string) bool { return true }); err != nil {
		return err
	}
	for _, node := range append([]*RedisServer{m.to, m.from}, m.cluster.Nodes...) { // the new owner first
		if err := m.set(ctx, node, "NODE", m.to); err != nil {
			return err
		}
	}
	return nil
}

func (m *SlotMigration) set(ctx context.Context, at *RedisServer, state string, of *RedisServer) error {
	return at.do(func(r *redis.Client) error { return r.Do(ctx, "CLUSTER", "SETSLOT", m.slot, state, m.ids[of]).Err() })
}

// move moves the picked keys until none of them is left.
func (m *SlotMigration) move(ctx context.Context, pick func(key string) bool) error {
	host, port, err := net.SplitHostPort(m.to.Addr())
	if err != nil {
		return fmt.Errorf("move slot %d: %w", m.slot, err)
	}
	return m.from.do(func(r *redis.Client) error {
		for {
			keys, err := r.ClusterGetKeysInSlot(ctx, m.slot, 1_000_000).Result()
			if err != nil {
				return err
			}
			keys = slices.DeleteFunc(keys, func(key string) bool { return !pick(key) })
			if len(keys) == 0 {
				return nil
			}
			for some := range slices.Chunk(keys, 100) {
				args := []any{"MIGRATE", host, port, "", 0, time.Minute.Milliseconds(), "KEYS"}
				for _, key := range some {
					args = append(args, key)
				}
				if err := r.Do(ctx, args...).Err(); err != nil {
					return err
				}
			}
		}
	})
}
