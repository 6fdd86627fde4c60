package reconcile

import (
	"context"
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
type changed struct {
	r        *Reconciler
	until    time.Time         // the end of the last window that was compared whole
	compared map[task.ID]int64 // versions compared in the last window
	identity string            // of the Redis servers
	breath
}

func (c *changed) pass(ctx context.Context, now clock) (loop.Result, error) {
	c.breath = c.r.breath(true)
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
	compared, err := c.window(ctx, from, to, now)
	if err != nil {
		return loop.Result{}, err
	}
	c.until, c.compared, c.identity = to, compared, identity
	return loop.Result{}, nil
}

func (c *changed) window(ctx context.Context, from, to time.Time, now clock) (map[task.ID]int64, error) {
	leaving := to.Add(-c.r.cfg.Longest - margin/2)
	compared := map[task.ID]int64{}
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
			if c.compared[row.ID] != row.Version || row.UpdatedAt.Before(leaving) {
				news = append(news, row)
			}
			compared[row.ID] = row.Version
		}
		if err := c.r.mendUnlike(ctx, "changed", news, now); err != nil {
			return nil, err
		}
		if len(rows) < n {
			return compared, nil
		}
		if err := c.rest(ctx); err != nil {
			return nil, err
		}
		last := rows[len(rows)-1]
		after = task.Cursor{At: last.UpdatedAt, ID: last.ID}
	}
}
