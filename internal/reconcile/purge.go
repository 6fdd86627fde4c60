package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
)

const (
	purgeBatch = 500                // rows deleted by one statement, which locks them
	queueKept  = 7 * 24 * time.Hour // what is left of an unused queue, at least: a queue may be between two configurations, or run once a day
)

// unsettled is how long ago a row may have changed that the changed pass has still to compare.
func (r *Reconciler) unsettled() time.Duration { return r.cfg.Longest + 2*windowMargin }

// purge deletes finished rows past their retention, and lines of the history, recurrences, operations and groups of the same age, and what
// is left of queues that nobody has used for as long.
type purge struct {
	r      *Reconciler
	purged time.Time // finished rows that changed before this moment are gone, as far as this term knows; zero before the first pass
	ended  time.Time // likewise of those that were moved out of the way
}

// pass purges each kind of rows, also if the purge of another kind fails.
func (p *purge) pass(ctx context.Context, now clock) (loop.Result, error) {
	// A row stays until the changed pass has compared it for the last time, or the owner's set could keep its entry.
	before := now().Add(-max(p.r.cfg.Retention, p.r.unsettled()))
	more, err := p.tasks(ctx, before)
	errs := []error{err}
	for _, purge := range []func(ctx context.Context, before time.Time, limit int) (int, error){
		p.r.store.PurgeHistory, p.r.store.PurgeRecurrences, p.r.store.PurgeOperations, p.r.store.PurgeGroups,
	} {
		n, err := purge(ctx, before, purgeBatch)
		more, errs = more || n == purgeBatch, append(errs, err)
	}
	if !more { // it reads small tables whole, and is in no haste
		errs = append(errs, p.queues(ctx, now()))
	}
	return loop.Result{More: more}, errors.Join(errs...)
}

// queues forgets what is left of queues that nobody uses any more, and says so in the history, which told of the limits and pauses.
func (p *purge) queues(ctx context.Context, now time.Time) error {
	queues, err := p.r.store.PurgeQueues(ctx, p.r.cfg.Queues, now, now.Add(-max(p.r.cfg.Retention, queueKept)))
	if len(queues) == 0 {
		return err
	}
	lines := make([]protocol.Event, len(queues))
	for i, queue := range queues {
		lines[i] = protocol.Event{At: now, Name: protocol.EventRetired, Actor: p.r.cfg.Name, Detail: queue}
	}
	return errors.Join(err, p.r.store.Record(ctx, nil, lines))
}

// tasks deletes finished rows of both tables, and measures how far it is behind.
func (p *purge) tasks(ctx context.Context, before time.Time) (more bool, err error) {
	if p.purged.IsZero() {
		p.purged, p.ended = before, before
	}
	more, err = p.live(ctx, before)
	n, upTo, failed := p.r.store.PurgeEnded(ctx, before, purgeBatch)
	p.r.metrics.purged.Add(float64(n))
	if failed == nil {
		p.ended = upTo
	}
	upTo = p.purged
	if p.ended.Before(upTo) {
		upTo = p.ended
	}
	p.r.metrics.purgeBehind.Set(max(0, before.Sub(upTo)).Seconds())
	return more || n == purgeBatch, errors.Join(err, failed)
}

// live deletes finished rows that stand among the pending ones.
func (p *purge) live(ctx context.Context, before time.Time) (more bool, err error) {
	n, more, err := p.r.store.Purge(ctx, before, purgeBatch)
	p.r.metrics.purged.Add(float64(n))
	switch {
	case err != nil: // nothing is known of the rows that have passed their retention since
	case !more:
		p.purged = before
	case n == purgeBatch: // the next finished row is not far from here
		p.purged = p.r.store.Purged()
	default: // a lap begins at the oldest row, where there are pending ones
		p.purged = later(p.purged, p.r.store.Purged())
	}
	return more, err
}
