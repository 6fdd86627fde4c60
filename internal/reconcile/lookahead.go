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
	r    *Reconciler
	seen time.Time // rows due before this moment have been looked at
}

func (l *lookahead) pass(ctx context.Context, now clock) (loop.Result, error) {
	soon := now().Add(task.MaxLead + flight)
	near := soon.Add(2 * l.r.cfg.Interval)
	end := now().Add(l.r.cfg.Lookahead)
	if err := l.r.sweep(ctx, "lookahead", soon, near, now); err != nil {
		return loop.Result{}, err
	}
	from := near
	if l.seen.After(near) {
		from = l.seen
	}
	if err := l.r.sweep(ctx, "lookahead", from, end, now); err != nil {
		return loop.Result{}, err
	}
	l.seen = end
	return loop.Result{}, nil
}

// sweep mends all pending rows due in [from, to).
func (r *Reconciler) sweep(ctx context.Context, reason string, from, to time.Time, now clock) error {
	var after task.Cursor
	for from.Before(to) {
		rows, err := r.store.Pending(ctx, from, to, after, page)
		if err != nil {
			return err
		}
		if err := r.mendUnlike(ctx, reason, rows, now); err != nil {
			return err
		}
		if len(rows) < page {
			return nil
		}
		after = behind(rows)
	}
	return nil
}
