package reconcile

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/pkg/task"
)

const (
	writerTime     = time.Second      // from a row's change until its writer has put it
	windowMargin   = 10 * time.Second // beyond the longest transaction
	failoverWindow = 2 * time.Minute  // how much farther back to look after Redis was restarted or failed over
)

// changed compares recently changed rows with both sets, in any state. When a row becomes visible, its updated_at may be
// as old as its transaction, so windows overlap by the longest transaction. A row that was compared at the same version
// is skipped, but compared once more before it leaves the window: a late put may have come meanwhile.
//
// If a shard fails, its rows that changed since then are compared once the shard answers again. The other shards' window
// doesn't grow meanwhile.
type changed struct {
	r        *Reconciler
	until    time.Time         // the end of the last window that was compared completely
	compared map[task.ID]int64 // versions compared in the last window, of rows that the next window overlaps
	identity string            // of the Redis servers
	feeds    bool              // that rows are missing is no drift
	throttle
}

func (c *changed) pass(ctx context.Context, now clock) (loop.Result, error) {
	c.throttle = c.r.throttle(true)
	var skipped skippedShards
	identity, err := c.r.index.Identity(ctx)
	if err != nil {
		return loop.Result{}, err
	}
	to := now().Add(-writerTime)
	from := to.Add(-c.r.cfg.Longest - windowMargin)
	if overlap := c.until.Add(-c.r.cfg.Longest - windowMargin); !c.until.IsZero() && overlap.Before(from) {
		from = overlap // passes since then failed
	}
	if identity != c.identity {
		c.compared = nil
		from = from.Add(-failoverWindow)
		c.alarms = -1 // as if drift was found: many entries may be missing, so this run does not sleep
	}
	compared, err := c.window(ctx, from, to, now, nil)
	if err := skipped.collect(err, nil); err != nil {
		return loop.Result{}, err
	}
	c.until, c.compared, c.identity = to, compared, identity
	for shard := range skipped.shards {
		c.r.uncompared.add(shard, from)
	}
	if err := skipped.collect(c.catchUp(ctx, to, now, skipped), nil); err != nil {
		return loop.Result{}, err
	}
	return loop.Result{}, skipped.err()
}

// catchUp compares the rows of shards that failed in earlier passes and answer now, from when they failed.
func (c *changed) catchUp(ctx context.Context, to time.Time, now clock, skipped skippedShards) error {
	since := c.r.uncompared.all()
	maps.DeleteFunc(since, func(shard int, _ time.Time) bool { return skipped.shards[shard] != nil })
	if len(since) == 0 {
		return nil
	}
	from := slices.MinFunc(slices.Collect(maps.Values(since)), time.Time.Compare)
	whole := &changed{r: c.r, throttle: c.throttle}
	_, err := whole.window(ctx, from, to, now, func(shard int) bool { _, ok := since[shard]; return ok })
	failed, partial := task.FailedShards(err)
	if err != nil && !partial {
		return err
	}
	for shard, at := range since {
		if failed[shard] != nil {
			continue
		}
		ids := c.r.uncompared.take(shard, at)
		for len(ids) > 0 {
			n := min(len(ids), page)
			if err := c.r.putIDs(ctx, ids[:n]); err != nil {
				c.r.uncompared.putBack(shard, at, ids)
				return err
			}
			ids = ids[n:]
		}
	}
	return err
}

// window compares the rows that changed in [from, to), of some shards or (nil) of all. A task.ShardsError names the
// shards whose rows were skipped. window ends early if no shard answers.
func (c *changed) window(ctx context.Context, from, to time.Time, now clock, of func(shard int) bool) (map[task.ID]int64, error) {
	leaving, next := to.Add(-c.r.cfg.Longest-windowMargin/2), to.Add(-c.r.cfg.Longest-windowMargin)
	compared := map[task.ID]int64{}
	reason := "changed"
	if c.feeds {
		reason = feedReason
	}
	var skipped skippedShards
	var after task.Cursor
	for {
		n := c.page()
		rows, err := c.r.store.Changed(ctx, from, to, after, n)
		if err != nil {
			return nil, err
		}
		c.looked += len(rows)
		var news []task.Task
		for _, row := range rows {
			if of != nil && !of(row.Shard) {
				continue
			}
			if c.compared[row.ID] != row.Version || row.UpdatedAt.Before(leaving) {
				news = append(news, row)
			}
		}
		if err := skipped.collect(c.r.mendUnlike(ctx, reason, skipped.reachable(news), now), news); err != nil {
			return compared, err
		}
		if err := skipped.collect(c.r.dropElsewhere(ctx, skipped.reachable(news), now), news); err != nil {
			return compared, err
		}
		for _, row := range rows {
			if !row.UpdatedAt.Before(next) && !skipped.has(row) {
				compared[row.ID] = row.Version
			}
		}
		if len(rows) < n {
			return compared, skipped.err()
		}
		if err := c.wait(ctx); err != nil {
			return nil, err
		}
		last := rows[len(rows)-1]
		after = task.Cursor{At: last.UpdatedAt, ID: last.ID}
	}
}
