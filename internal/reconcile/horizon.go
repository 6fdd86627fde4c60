package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// feedReason is the reason of puts of rows that come within the horizon. That they are missing before is no drift.
const feedReason = "fed"

const feedPages = 4 // of a run; between two runs the pass looks whether a newer daemon leads, and sleeps

// horizon makes the layout's horizon what Config.Horizon says. The layout tells all processes. Each step may be repeated, and a
// daemon may die after each.
//
// From none to a horizon:
//
//  1. Set partial: lists come from the database from now on.
//  2. Wait until every process knows it. Set the horizon: writers no longer put tasks beyond it, and drop those that move there.
//  3. The lookahead feeds the edge. An audit of the whole index removes what is beyond.
//
// From a horizon to none:
//
//  1. Set the horizon to none: writers put every task.
//  2. Wait until every process knows it. Put every pending row; then compare those that changed meanwhile.
//  3. Unset partial: lists come from the index.
//
// From one horizon to another it is set, and the lookahead feeds the new edge.
type horizon struct {
	layout  protocol.Layout // of the present step
	since   time.Time       // when this term saw the present step first
	began   time.Time       // when the fill began; zero before
	rows    walk            // of the fill, from a run time to another
	from    time.Time
	to      time.Time // zero before the fill
	filled  bool      // the fill has come to its end
	audited bool      // this term has asked for an audit of the index
}

func (h *horizon) pass(ctx context.Context, s *sweep) (loop.Result, error) {
	l, err := s.cfg.Layout(ctx)
	if err != nil {
		return loop.Result{}, fmt.Errorf("read the layout: %w", err)
	}
	want := s.cfg.Horizon
	if l.Horizon == want && l.Partial == (want > 0) {
		if l.Horizon > 0 && !h.audited { // what was put before this term may be beyond the horizon
			h.audited = true
			s.auditAll()
		}
		return loop.Result{}, nil
	}
	if h.since.IsZero() || h.layout.Horizon != l.Horizon || h.layout.Partial != l.Partial {
		*h = horizon{layout: l, since: s.now()}
	}
	settled := !s.now().Before(h.since.Add(s.cfg.Settle))
	switch {
	case !l.Partial, want == 0 && l.Horizon > 0:
		return loop.Result{}, s.setHorizon(ctx, l, 0, true)
	case !settled:
		return loop.Result{}, nil
	case want > 0:
		return loop.Result{}, s.setHorizon(ctx, l, want, true)
	default:
		return h.fill(ctx, s, l)
	}
}

// setHorizon writes a step into the layout and the history.
func (s *sweep) setHorizon(ctx context.Context, l protocol.Layout, to time.Duration, partial bool) error {
	line := protocol.Event{
		At: s.now(), Name: protocol.EventHorizon, Actor: s.cfg.Name,
		Detail: horizonName(l.Horizon, l.Partial) + " to " + horizonName(to, partial),
	}
	err := s.store.SetHorizon(ctx, l, to, partial, line)
	switch {
	case errors.Is(err, protocol.ErrLayoutChanged):
		return nil // the next pass reads the layout again
	case err == nil:
		s.cfg.Logger.InfoContext(ctx, "horizon changes", "from", horizonName(l.Horizon, l.Partial), "horizon", horizonName(to, partial))
	}
	return err
}

// horizonName names what a layout says for people.
func horizonName(d time.Duration, partial bool) string {
	switch {
	case d > 0:
		return d.String()
	case partial:
		return "none yet"
	default:
		return "none"
	}
}

// fill compares some pages of pending rows. After the last page it compares the rows that changed meanwhile, and the index is
// complete.
func (h *horizon) fill(ctx context.Context, s *sweep, l protocol.Layout) (loop.Result, error) {
	if s.filling.Load() {
		return loop.Result{}, nil // a rebuild puts every row, too
	}
	if h.began.IsZero() {
		h.began = s.now()
	}
	if over, err := h.fillRows(ctx, s); err != nil || !over {
		return loop.Result{More: err == nil}, err
	}
	if err := cmp.Or(s.compareChangedSince(ctx, feedReason, h.began), s.index.err()); err != nil {
		return loop.Result{}, err
	}
	return loop.Result{}, s.setHorizon(ctx, l, 0, false)
}

// fillRows compares some pages, and reports whether the last one was among them. What the floor has fallen to meanwhile follows.
func (h *horizon) fillRows(ctx context.Context, s *sweep) (over bool, err error) {
	if h.filled {
		return true, nil
	}
	floor, err := s.store.Floor(ctx)
	if err != nil {
		return false, err
	}
	if h.to.IsZero() {
		h.from, h.to = floor, farFuture
	}
	over, err = h.rows.pages(ctx, s, s.pending(h.from, h.to, page), upTo(feedPages), func(rows []task.Task) error {
		return cmp.Or(s.mendUnlike(ctx, feedReason, rows), s.index.err()) // the page is repeated, also if some shards have failed
	})
	if err != nil || !over {
		return false, err
	}
	if floor, err = s.store.Floor(ctx); err != nil {
		return false, err
	}
	if h.filled = !floor.Before(h.from); !h.filled {
		h.from, h.to = floor, h.from
	}
	return h.filled, nil
}

// horizonEnd returns the moment up to which rows stand in the index.
func horizonEnd(l protocol.Layout, now clock) time.Time {
	if l.Horizon == 0 {
		return farFuture
	}
	return l.FedUntil(now())
}

// layoutFor reads the layout by which rows are compared. Rows that are fed must stand, though the index is partial.
func (r *Reconciler) layoutFor(ctx context.Context, reason string) (protocol.Layout, error) {
	l, err := r.store.RecentLayout(ctx)
	if err != nil {
		return l, fmt.Errorf("read the layout: %w", err)
	}
	l.Partial = l.Partial && reason != feedReason
	return l, nil
}

// fed is the moment up to which the lookahead of this term has put rows; it matters while the index is partial. It is safe for
// concurrent use.
type fed struct{ ms atomic.Int64 }

func (f *fed) set(to time.Time) { f.ms.Store(to.UnixMilli()) }

// raise raises the moment. Only the lookahead calls set and raise during a term.
func (f *fed) raise(to time.Time) {
	if f.ms.Load() < to.UnixMilli() {
		f.set(to)
	}
}

// unfed reports whether a row may be absent from a partial index because no lookahead has put it yet.
func (r *Reconciler) unfed(l protocol.Layout, row task.Task) bool {
	return l.Partial && protocol.ScoreOf(row).RunAt().UnixMilli() >= r.fed.ms.Load()
}
