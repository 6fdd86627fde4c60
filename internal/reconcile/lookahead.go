package reconcile

import (
	"context"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/pkg/task"
)

// lookahead makes sure that rows due soon stand in the index. Rows due within the next few passes are looked at in each
// pass; those farther off once, when they come within the look-ahead. (A row scheduled into the window later is put by
// its writer, and compared by the changed pass.)
type lookahead struct {
	r       *Reconciler
	seen    time.Time // rows due before this moment have been looked at
	skipped skippedShards
	throttle
}

func (l *lookahead) pass(ctx context.Context, now clock) (loop.Result, error) {
	l.throttle = l.r.throttle(false)
	l.skipped = skippedShards{}
	l.extra = 0 // what it looks at is due soon
	soon := landing(now)
	near := soon.Add(2 * l.r.cfg.Interval)
	end := now().Add(l.r.cfg.Lookahead)
	if err := l.sweep(ctx, soon, near, now); err != nil {
		return loop.Result{}, err
	}
	from := near
	if l.seen.After(near) {
		from = l.seen
	}
	if err := l.sweep(ctx, from, end, now); err != nil {
		return loop.Result{}, err
	}
	l.seen = end
	return loop.Result{}, l.skipped.err()
}

// landing is the moment before which a row's hint may be under way: then it rightly stands nowhere.
func landing(now clock) time.Time { return now().Add(task.MaxLead + flight) }

// sweep mends all pending rows due in [from, to), but for those whose hint may be under way when their page comes.
func (l *lookahead) sweep(ctx context.Context, from, to time.Time, now clock) error {
	var after task.Cursor
	for {
		if soon := landing(now); from.Before(soon) {
			from = soon
		}
		if !from.Before(to) {
			return nil
		}
		if after.At.Before(from) {
			after = task.Cursor{}
		}
		n := l.page()
		rows, err := l.r.store.Pending(ctx, from, to, after, n)
		if err != nil {
			return err
		}
		l.looked += len(rows)
		if err := l.skipped.collect(l.r.mendUnlike(ctx, "lookahead", l.skipped.reachable(rows), now), rows); err != nil {
			return err
		}
		if len(rows) < n {
			return nil
		}
		if err := l.wait(ctx); err != nil {
			return err
		}
		after = behind(rows)
	}
}
