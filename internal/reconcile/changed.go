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
	settleTime = time.Second      // a row changed so lately is still being indexed by its writer
	margin     = 10 * time.Second // beyond the longest transaction
	wide       = 2 * time.Minute  // how far back to look after Redis was restarted or failed over
)

// changed compares rows written lately with both sets, in any state. A row's updated_at may lie in the past by its
// transaction's length when it becomes visible, so windows overlap by the longest one. What was compared before at the
// same version is passed over, but compared once more before it leaves the window: a late put may have come meanwhile.
//
// A shard that fails is in arrears: its rows changed since then are compared once it takes its part again. The other shards'
// window doesn't grow meanwhile.
type changed struct {
	r        *Reconciler
	until    time.Time         // the end of the last window that was compared whole
	compared map[task.ID]int64 // versions compared in the last window, of rows that the next one may hold
	identity string            // of the Redis servers
	throttle
}

func (c *changed) pass(ctx context.Context, now clock) (loop.Result, error) {
	c.throttle = c.r.throttle(true)
	var skipped skippedShards
	identity, err := c.r.index.Identity(ctx)
	if err != nil {
		return loop.Result{}, err
	}
	to := now().Add(-settleTime)
	from := to.Add(-c.r.cfg.Longest - margin)
	if overlap := c.until.Add(-c.r.cfg.Longest - margin); !c.until.IsZero() && overlap.Before(from) {
		from = overlap // the passes between failed
	}
	if identity != c.identity {
		c.compared = nil
		from = from.Add(-wide)
		c.alarms = -1 // much may be missing: it doesn't rest
	}
	compared, err := c.window(ctx, from, to, now, nil)
	if err := skipped.collect(err, nil); err != nil {
		return loop.Result{}, err
	}
	c.until, c.compared, c.identity = to, compared, identity
	for shard := range skipped.shards {
		c.r.arrears.owe(shard, from)
	}
	if err := skipped.collect(c.catchUp(ctx, to, now, skipped), nil); err != nil {
		return loop.Result{}, err
	}
	return loop.Result{}, skipped.err()
}

// catchUp compares what has changed, in shards that failed before, since they did.
func (c *changed) catchUp(ctx context.Context, to time.Time, now clock, skipped skippedShards) error {
	since := c.r.arrears.all()
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
	var ids []task.ID
	for shard, at := range since {
		if failed[shard] == nil {
			ids = append(ids, c.r.arrears.paid(shard, at)...)
		}
	}
	for some := range slices.Chunk(ids, page) {
		if err := c.r.putIDs(ctx, some); err != nil {
			return err
		}
	}
	return err
}

// window compares the rows that changed in [from, to), of some shards or (nil) of all. A task.ShardsError names the shards
// whose rows were left out. It ends early when none of the shards takes its part.
func (c *changed) window(ctx context.Context, from, to time.Time, now clock, of func(shard int) bool) (map[task.ID]int64, error) {
	leaving, next := to.Add(-c.r.cfg.Longest-margin/2), to.Add(-c.r.cfg.Longest-margin)
	compared := map[task.ID]int64{}
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
		if err := skipped.collect(c.r.mendUnlike(ctx, "changed", skipped.reachable(news), now), news); err != nil {
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
