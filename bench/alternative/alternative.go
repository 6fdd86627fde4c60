// Package alternative holds what people build by hand before they look for a system: each in a folder of its own, small,
// at the best settings that its kind allows, and honest about what it loses. Here is what several of them share.
//
//	scan          a table read each second: exact, but half a second late on average
//	heap          a min-heap in memory: loses all when killed
//	wheel         a hashed and a hierarchical timing wheel in memory: lose all when killed
//	zset          a Redis ZSET polled each 50 ms: loses what is running when killed
//	bucketticker  16 Redis ZSETs with a ticker each, and a list: loses what is running when killed
//	diskwheel     a wheel fed from hourly files: runs up to a second's work again after a kill
package alternative

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/bench/queue"
)

// Do runs one job.
type Do func(ctx context.Context, j queue.Job) error

// Poll calls pass each interval until ctx ends, and again at once while there was more than pass takes at a time.
func Poll(ctx context.Context, interval time.Duration, pass func(ctx context.Context) (more bool, err error)) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		more, err := pass(ctx)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if more {
			continue
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// Each runs do for each job on n goroutines and waits for them. When ctx ends, what began is finished and the rest left.
func Each(ctx context.Context, n int, jobs []queue.Job, do Do) error {
	var group errgroup.Group
	group.SetLimit(n)
	for _, j := range jobs {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { return do(context.WithoutCancel(ctx), j) })
	}
	return group.Wait()
}

// Hand runs do on n goroutines for each job that take hands over, until ctx ends; what began is finished. hand waits
// while all n are busy.
func Hand(ctx context.Context, n int, take func(ctx context.Context, hand func([]queue.Job)) error, do Do) error {
	due := make(chan queue.Job, n)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(due)
		return take(ctx, func(jobs []queue.Job) {
			for _, j := range jobs {
				select {
				case due <- j:
				case <-ctx.Done():
					return
				}
			}
		})
	})
	for range n {
		group.Go(func() error {
			for j := range due {
				if err := do(context.WithoutCancel(ctx), j); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// callers is how many connections there are beside the handlers' own: as many as accept at once.
const callers = 64

// OpenRedis opens a client whose pool keeps no handler and no caller waiting.
func OpenRedis(ctx context.Context, env queue.Env) (*redis.Client, error) {
	client := redis.NewClient(&redis.Options{Addr: env.Redis, PoolSize: env.Workers + callers})
	return client, client.Ping(ctx).Err()
}
