package reconcile

import (
	"context"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/pkg/task"
)

// lookahead compares rows that are due soon with the index. It compares rows due within the next few passes in each
// pass, and rows farther off once, when they come within Config.Lookahead or within the horizon. A row that is scheduled
// into that window later is put by its writer, and compared by the changed pass.
type lookahead struct {
	r       *Reconciler
	seen    time.Time // rows due before this moment were compared
	skipped skippedShards
	throttle
}

func (l *lookahead) pass(ctx context.Context, now clock) (loop.Result, error) {
	l.throttle = l.r.throttle(false)
	l.skipped = skippedShards{}
	l.extra = 0 // no longer sleeps: these rows are due soon
	soon := underWayUntil(now)
	near := soon.Add(2 * l.r.cfg.Interval)
	end := now().Add(l.r.cfg.Lookahead)
	layout, err := l.r.layoutFor(ctx, "lookahead")
	if err != nil {
		return loop.Result{}, err
	}
	far := "lookahead"
	if layout.Partial {
		far = feedReason
	}
	if layout.Horizon > 0 {
		end = later(end, layout.FedUntil(now()))
	}
	l.r.fed.raise(near)
	if err := l.sweep(ctx, "lookahead", soon, near, now); err != nil {
		return loop.Result{}, err
	}
	if err := l.sweep(ctx, far, later(near, l.seen), end, now); err != nil {
		return loop.Result{}, err
	}
	if err := l.skipped.err(); err != nil {
		return loop.Result{}, err // the next pass goes over the same rows again
	}
	l.seen = end
	l.r.fed.set(later(near, end))
	return loop.Result{}, nil
}

// underWayUntil returns the moment up to which the hints of due rows may be under way, so that they may be absent from
// due.
func underWayUntil(now clock) time.Time { return now().Add(task.MaxLead + publishTime) }

// sweep compares all pending rows due in [from, to), except those whose hint may be under way when their page is read.
func (l *lookahead) sweep(ctx context.Context, reason string, from, to time.Time, now clock) error {
	var after task.Cursor
	for {
		if soon := underWayUntil(now); from.Before(soon) {
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
		if err := l.skipped.collect(l.r.mendUnlike(ctx, reason, l.skipped.reachable(rows), now), rows); err != nil {
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
