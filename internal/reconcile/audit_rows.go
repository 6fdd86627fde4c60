package reconcile

import (
	"context"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/pkg/task"
)

// auditRows walks the pending rows in time order, and mends those whose entries are missing or wrong. With a horizon it also puts
// the rows behind it whose times no score can hold: they stand at 1970, so that a worker ends them.
type auditRows struct {
	auditMode
	rows, unscorable walk
}

// firstUnscorable is the first time that no score can hold.
var firstUnscorable = time.UnixMilli(1 << 41)

func (a *auditRows) pass(ctx context.Context, s *sweep) (loop.Result, error) {
	rate, begin := a.rate(s)
	if begin {
		a.rows = walk{}
	}
	layout, err := s.layoutFor(ctx, "audited")
	if err != nil {
		return loop.Result{}, err
	}
	end := horizonEnd(layout, s.now)
	floor, err := s.store.Floor(ctx)
	if err != nil {
		return loop.Result{}, err
	}
	if layout.Horizon > 0 { // only other programs insert such rows: a page of them is enough
		_, err = a.unscorable.pages(ctx, s, s.pending(firstUnscorable, farFuture, page), upTo(1), func(rows []task.Task) error {
			return s.mendUnlike(ctx, feedReason, rows)
		})
		if err != nil {
			return loop.Result{}, err
		}
	}
	n := min(page, rate)
	over, err := a.rows.pages(ctx, s, s.pending(floor, end, n), upTo((rate+n-1)/n), func(rows []task.Task) error {
		return s.mendUnlike(ctx, "audited", rows)
	})
	if over {
		a.endRound()
	}
	return a.next(s), err
}
