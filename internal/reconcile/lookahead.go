package reconcile

import (
	"cmp"
	"context"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/pkg/task"
)

// farPages is how many pages of far rows a pass compares at most; then near rows are compared again.
const farPages = 100

// lookahead compares rows that are due soon with the index. It compares rows due within the next few passes in each
// pass, and rows farther off once, when they come within Config.Lookahead or within the horizon. A row that is scheduled
// into that window later is put by its writer, and compared by the changed pass.
//
// The far rows may be millions, as when a term begins with a horizon: one lap over them takes many passes. A lap that has
// skipped rows of a failing shard is followed by another one over the same rows.
type lookahead struct {
	r        *Reconciler
	seen     time.Time   // rows due before this moment were compared
	passed   task.Cursor // the last row that the lap has compared; zero at its beginning
	skips    bool        // the lap has skipped rows
	farPages int         // 0: farPages
	skipped  skippedShards
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
	if err := l.sweep(ctx, soon, near, now); err != nil {
		return loop.Result{}, err
	}
	more, err := l.sweepFar(ctx, far, near, end, now)
	if err != nil {
		return loop.Result{}, err
	}
	err = l.skipped.err()
	return loop.Result{More: more && err == nil}, err
}

// underWayUntil returns the moment up to which the hints of due rows may be under way, so that they may be absent from
// due.
func underWayUntil(now clock) time.Time { return now().Add(task.MaxLead + publishTime) }

// sweep compares all pending rows due in [from, to).
func (l *lookahead) sweep(ctx context.Context, from, to time.Time, now clock) error {
	var after task.Cursor
	for {
		next, err := l.comparePage(ctx, "lookahead", from, to, after, now)
		if err != nil || next == (task.Cursor{}) {
			return err
		}
		if err := l.wait(ctx); err != nil {
			return err
		}
		after = next
	}
}

// sweepFar goes on with the lap over the rows due from near to end, for about as long as near rows can wait, and reports whether
// the lap has more rows. Rows that the lap has passed must stand from then on: the changed pass mends those that come later.
func (l *lookahead) sweepFar(ctx context.Context, reason string, near, end time.Time, now clock) (more bool, err error) {
	from, until := later(near, l.seen), now().Add(l.r.cfg.Interval)
	for range cmp.Or(l.farPages, farPages) {
		next, err := l.comparePage(ctx, reason, from, end, l.passed, now)
		if _, partial := task.FailedShards(err); err != nil && !partial {
			return false, err
		}
		l.passed, l.skips = next, l.skips || l.skipped.err() != nil
		if next == (task.Cursor{}) {
			l.endLap(near, end)
			return false, err
		}
		if !l.skips {
			l.r.fed.raise(next.At)
		}
		if err != nil { // page after page has only rows of shards that fail: the next pass goes on behind them
			return false, err
		}
		if !now().Before(until) {
			return true, nil
		}
		if err := l.wait(ctx); err != nil {
			return false, err
		}
	}
	return true, nil
}

func (l *lookahead) endLap(near, end time.Time) {
	if !l.skips {
		l.seen = end
		l.r.fed.set(later(near, end))
	}
	l.skips = false
}

// comparePage compares a page of the pending rows due in [from, to), except those whose hint may be under way when the page is read.
// It returns where the next page begins, also with the error of shards that have failed for too long; zero after the last page.
func (l *lookahead) comparePage(
	ctx context.Context, reason string, from, to time.Time, after task.Cursor, now clock,
) (next task.Cursor, err error) {
	if soon := underWayUntil(now); from.Before(soon) {
		from = soon
	}
	if !from.Before(to) {
		return next, nil
	}
	if after.At.Before(from) {
		after = task.Cursor{}
	}
	n := l.page()
	rows, err := l.r.store.Pending(ctx, from, to, after, n)
	if err != nil {
		return next, err
	}
	l.looked += len(rows)
	if len(rows) == n {
		next = behind(rows)
	}
	return next, l.skipped.collect(l.r.mendUnlike(ctx, reason, l.skipped.reachable(rows), now), rows)
}
