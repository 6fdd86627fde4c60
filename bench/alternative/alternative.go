// Package alternative holds what people build by hand before they look for a system: each in a folder of its own, small,
// at the best settings that its kind allows, and honest about what it loses. Here is what several of them share.
//
//	scan  a table read each second: exact, but half a second late on average
//	zset  a Redis ZSET polled each 50 ms: loses what is running when killed
package alternative

import (
	"context"
	"time"

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
