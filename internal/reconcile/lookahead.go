package reconcile

import (
	"context"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// lookahead compares rows that are due soon with the index. It compares rows due within the next few passes in each
// pass, and rows farther off once, when they come within Config.Lookahead or within the horizon. A row that is scheduled
// into that window later is put by its writer, and compared by the changed pass.
//
// The far rows may be millions, as when a term begins with a horizon: one lap over them takes many passes. A lap that has
// skipped rows of a failing shard is followed by another one over the same rows.
type lookahead struct {
	far   walk      // through rows that are not near
	skips bool      // the lap has skipped rows
	seen  time.Time // rows due before this moment were compared
}

func (l *lookahead) pass(ctx context.Context, s *sweep) (loop.Result, error) {
	near := s.underWayUntil().Add(2 * s.cfg.Interval)
	end := s.now().Add(s.cfg.Lookahead)
	layout, err := s.layoutFor(ctx, "lookahead")
	if err != nil {
		return loop.Result{}, err
	}
	if layout.Horizon > 0 {
		end = later(end, layout.FedUntil(s.now()))
	}
	s.fed.raise(near)
	_, err = new(walk).pages(ctx, s, s.notUnderWay(time.Time{}, near), nil, func(rows []task.Task) error {
		return s.mendUnlike(ctx, "lookahead", rows)
	})
	if err != nil {
		return loop.Result{}, err
	}
	reason := "lookahead"
	if layout.Partial {
		reason = feedReason
	}
	more, err := l.passFar(ctx, s, reason, near, end)
	return loop.Result{More: more && s.index.err() == nil}, err
}

// passFar goes on with the lap over the rows due from near to end, for about as long as near rows can wait, and reports whether
// the lap has more rows. Rows that the lap has passed must stand from then on: the changed pass mends those that come later.
func (l *lookahead) passFar(ctx context.Context, s *sweep, reason string, near, end time.Time) (more bool, err error) {
	until := s.now().Add(s.cfg.Interval)
	enough := func(int) bool { return !s.now().Before(until) }
	over, err := l.far.pages(ctx, s, s.notUnderWay(later(near, l.seen), end), enough, func(rows []task.Task) error {
		if err := s.mendUnlike(ctx, reason, rows); err != nil {
			return err
		}
		if l.skips = l.skips || s.index.err() != nil; !l.skips && len(rows) > 0 {
			s.fed.raise(rows[len(rows)-1].RunAt)
		}
		return nil
	})
	if !over || err != nil {
		return !over, err
	}
	if !l.skips {
		l.seen = end
		s.fed.set(later(near, end))
	}
	l.skips = false
	return false, nil
}

// notUnderWay reads pages of the pending rows that are due in [from, to), except those whose hint may be under way when the page
// is read.
func (s *sweep) notUnderWay(from, to time.Time) readPage {
	return func(ctx context.Context, after protocol.Cursor) ([]task.Task, protocol.Cursor, error) {
		from := later(from, s.underWayUntil())
		if !from.Before(to) {
			return nil, protocol.Cursor{}, nil
		}
		return s.pending(from, to, s.page())(ctx, after)
	}
}
