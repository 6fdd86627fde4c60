package offsets

import (
	"context"
	"fmt"
	"time"

	"github.com/duetime/duetime/internal/loop"
)

const (
	commitInterval = 50 * time.Millisecond  // a crash repeats the hints of this time, whose rows are done
	retryInterval  = 100 * time.Millisecond // after a refused commit
	refusalsToWarn = 5                      // refusals in a row; every rebalance of the group causes fewer
)

// CommitLoop commits new progress every commitInterval until ctx ends, so that a busy time has few large commits. It calls
// warn once for each series of refusals.
func (g *Generation) CommitLoop(ctx context.Context, warn func(error)) {
	for {
		select {
		case <-g.dirty:
		case <-ctx.Done():
			return
		}
		for refused := 1; ; refused++ {
			err := g.Commit(ctx)
			if err == nil || ctx.Err() != nil {
				break
			}
			if refused == refusalsToWarn {
				warn(err)
			}
			loop.Sleep(ctx, retryInterval)
		}
		loop.Sleep(ctx, commitInterval)
	}
}

// Commit sends the offsets that moved. The next commit repeats those of a failed commit. Calls wait for one another, so
// that an older offset never arrives after a newer one.
func (g *Generation) Commit(ctx context.Context) error {
	g.sending.Lock()
	defer g.sending.Unlock()
	next := g.progress()
	if len(next) == 0 {
		return nil
	}
	if err := g.committer.Commit(ctx, next); err != nil {
		return fmt.Errorf("commit offsets of %d partitions: %w", len(next), err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, offset := range next {
		g.partitions[id].committed = offset
	}
	return nil
}

// progress returns the offsets that moved since the last commit; none once the generation is over.
func (g *Generation) progress() map[int]int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	next := map[int]int64{}
	for id, p := range g.partitions {
		if p.next > p.committed && !g.over {
			next[id] = p.next
		}
	}
	return next
}
