// Package zset is a Redis ZSET by due time, polled each 50 ms with ZRANGEBYSCORE; who gets 1 from ZREM runs the job, as
// it is commonly written. A job between its ZREM and its commit is lost when the worker is killed, and a move that comes
// between the poll and the ZREM is lost. Each handler removes its own job just before it runs it, which is the kindest
// form: where the poller removes what it found, a kill loses up to a whole batch.
package zset

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/bench/alternative"
	"github.com/duetime/duetime/bench/queue"
)

const (
	key      = "bench:zset"
	interval = 50 * time.Millisecond
	batch    = 1000 // members a poll, and members a ZADD
	callers  = 64   // connections beside the handlers' own: as many as accept at once
)

// Queue is the ZSET.
type Queue struct {
	client  *redis.Client
	workers int
}

// Open connects to the ZSET.
func Open(ctx context.Context, env queue.Env) (queue.Queue, error) {
	client := redis.NewClient(&redis.Options{Addr: env.Redis, PoolSize: env.Workers + callers})
	return &Queue{client: client, workers: env.Workers}, client.Ping(ctx).Err()
}

var _ queue.Mover = (*Queue)(nil)

// Schedule adds the jobs by many members a command.
func (q *Queue) Schedule(ctx context.Context, jobs []queue.Job) error {
	for ; len(jobs) > 0; jobs = jobs[min(batch, len(jobs)):] {
		var members []redis.Z
		for _, j := range jobs[:min(batch, len(jobs))] {
			members = append(members, redis.Z{Score: float64(j.Due), Member: j.ID})
		}
		if err := q.client.ZAdd(ctx, key, members...).Err(); err != nil {
			return fmt.Errorf("add %d jobs: %w", len(members), err)
		}
	}
	return nil
}

// Move changes the score while the job is there.
func (q *Queue) Move(ctx context.Context, j queue.Job) error {
	if err := q.client.ZAddXX(ctx, key, redis.Z{Score: float64(j.Due), Member: j.ID}).Err(); err != nil {
		return fmt.Errorf("move %d: %w", j.ID, err)
	}
	return nil
}

// Work polls, and again at once while there is more than a poll takes.
func (q *Queue) Work(ctx context.Context, e *queue.Effects) error {
	return alternative.Poll(ctx, interval, func(ctx context.Context) (bool, error) {
		jobs, err := q.due(ctx)
		if err != nil {
			return false, err
		}
		return len(jobs) == batch, alternative.Each(ctx, q.workers, jobs, func(ctx context.Context, j queue.Job) error {
			removed, err := q.client.ZRem(ctx, key, j.ID).Result()
			if err != nil {
				return fmt.Errorf("remove %d: %w", j.ID, err)
			}
			if removed == 0 { // another worker's
				return nil
			}
			return e.Do(ctx, j)
		})
	})
}

// Close disconnects.
func (q *Queue) Close() error { return q.client.Close() }

func (q *Queue) due(ctx context.Context) ([]queue.Job, error) {
	members, err := q.client.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
		Key: key, ByScore: true, Start: "-inf", Stop: time.Now().UnixMicro(), Count: batch,
	}).Result()
	if err != nil {
		return nil, fmt.Errorf("poll: %w", err)
	}
	jobs := make([]queue.Job, len(members))
	for i, m := range members {
		id, err := strconv.ParseInt(fmt.Sprint(m.Member), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read a member: %w", err)
		}
		jobs[i] = queue.Job{ID: id, Due: int64(m.Score)}
	}
	return jobs, nil
}
