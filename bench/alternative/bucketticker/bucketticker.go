// Package bucketticker is the bucket ticker of widely copied delay queues on Redis: jobs are spread over ZSETs, each with a
// ticker that moves the due heads, one at a time, to a ready list, on which the handlers wait. A job between its BLPOP
// and its commit is lost when the worker is killed.
//
// Those designs tick each second and move a head in several calls, which a kill in between doubles or loses. Here the
// ticks are 10 ms (1,600 commands a second when idle) and a head is moved by one script.
package bucketticker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/bench/alternative"
	"github.com/duetime/duetime/bench/queue"
)

const (
	count    = 16
	interval = 10 * time.Millisecond
	ready    = "bench:ready"
	batch    = 1000        // jobs a pipeline
	patience = time.Second // of a BLPOP: how long the end of the work may take
)

// head moves the first job of a bucket to the ready list if it is due.
//
//	KEYS[1] -> the bucket, KEYS[2] -> the ready list, ARGV[1] -> now in µs, returns 1 if a job was moved
var head = redis.NewScript(`
local job = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'WITHSCORES', 'LIMIT', 0, 1)
if #job == 0 then return 0 end
redis.call('ZREM', KEYS[1], job[1])
redis.call('RPUSH', KEYS[2], job[1] .. ' ' .. job[2])
return 1`)

// Queue is the buckets and the ready list.
type Queue struct {
	client  *redis.Client
	workers int
}

// Open connects to the buckets.
func Open(ctx context.Context, env queue.Env) (queue.Queue, error) {
	client, err := alternative.OpenRedis(ctx, env)
	return &Queue{client: client, workers: env.Workers}, err
}

var _ queue.Mover = (*Queue)(nil)

// Schedule adds the jobs by pipelines with one command a bucket.
func (q *Queue) Schedule(ctx context.Context, jobs []queue.Job) error {
	for ; len(jobs) > 0; jobs = jobs[min(batch, len(jobs)):] {
		if err := q.add(ctx, jobs[:min(batch, len(jobs))]); err != nil {
			return fmt.Errorf("add jobs: %w", err)
		}
	}
	return nil
}

func (q *Queue) add(ctx context.Context, jobs []queue.Job) error {
	members := map[string][]redis.Z{}
	for _, j := range jobs {
		members[bucket(j.ID)] = append(members[bucket(j.ID)], redis.Z{Score: float64(j.Due), Member: j.ID})
	}
	_, err := q.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for key, ms := range members {
			pipe.ZAdd(ctx, key, ms...)
		}
		return nil
	})
	return err
}

// Move changes the score while the job is in its bucket.
func (q *Queue) Move(ctx context.Context, j queue.Job) error {
	if err := q.client.ZAddXX(ctx, bucket(j.ID), redis.Z{Score: float64(j.Due), Member: j.ID}).Err(); err != nil {
		return fmt.Errorf("move %d: %w", j.ID, err)
	}
	return nil
}

// Work runs a ticker for each bucket, and the handlers.
func (q *Queue) Work(ctx context.Context, e *queue.Effects) error {
	group, ctx := errgroup.WithContext(ctx)
	for b := range int64(count) {
		group.Go(func() error {
			return alternative.Poll(ctx, interval, func(ctx context.Context) (bool, error) { return q.tick(ctx, bucket(b)) })
		})
	}
	for range q.workers {
		group.Go(func() error { return q.handle(ctx, e) })
	}
	return group.Wait()
}

// Close disconnects.
func (q *Queue) Close() error { return q.client.Close() }

func (q *Queue) tick(ctx context.Context, bucket string) (bool, error) {
	moved, err := head.Run(ctx, q.client, []string{bucket, ready}, time.Now().UnixMicro()).Bool()
	if err != nil {
		return false, fmt.Errorf("tick %s: %w", bucket, err)
	}
	return moved, nil
}

// handle runs what is ready, one after the other. It does not cut a BLPOP short, which may have its job already.
func (q *Queue) handle(ctx context.Context, e *queue.Effects) error {
	whole := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		popped, err := q.client.BLPop(whole, patience, ready).Result()
		if errors.Is(err, redis.Nil) {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for a job: %w", err)
		}
		var j queue.Job
		if _, err := fmt.Sscan(popped[1], &j.ID, &j.Due); err != nil {
			return fmt.Errorf("read job %q: %w", popped[1], err)
		}
		if err := e.Do(whole, j); err != nil {
			return err
		}
	}
	return nil
}

func bucket(id int64) string { return "bench:bucket:" + strconv.FormatInt(id%count, 10) }
