package reconcile

import (
	"context"
	"time"

	"github.com/duetime/duetime/internal/loop"
)

const purgeBatch = 500 // rows deleted by one statement, which locks them

// purge deletes finished rows past their retention, and lines of the history, recurrences and operations of the same age.
type purge struct{ r *Reconciler }

func (p *purge) pass(ctx context.Context, now clock) (loop.Result, error) {
	// A row stays until the changed pass has compared it for the last time, or the owner's set could keep its entry.
	before := now().Add(-max(p.r.cfg.Retention, p.r.cfg.Longest+2*windowMargin))
	n, more, err := p.r.store.Purge(ctx, before, purgeBatch)
	p.r.metrics.purged.Add(float64(n))
	if err != nil {
		return loop.Result{}, err
	}
	behind := time.Duration(0)
	if more {
		behind = max(0, before.Sub(p.r.store.Purged()))
	}
	p.r.metrics.purgeBehind.Set(behind.Seconds())
	lines, err := p.r.store.PurgeHistory(ctx, before, purgeBatch)
	if err != nil {
		return loop.Result{}, err
	}
	ended, err := p.r.store.PurgeRecurrences(ctx, before, purgeBatch)
	if err != nil {
		return loop.Result{}, err
	}
	over, err := p.r.store.PurgeOperations(ctx, before, purgeBatch)
	return loop.Result{More: more || lines == purgeBatch || ended == purgeBatch || over == purgeBatch}, err
}
