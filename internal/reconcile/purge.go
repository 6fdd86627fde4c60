package reconcile

import (
	"context"

	"github.com/duetime/duetime/internal/loop"
)

const purgeBatch = 500 // rows a statement: short locks

// purge removes finished rows past their retention, and lines of the history that are as old.
type purge struct{ r *Reconciler }

func (p *purge) pass(ctx context.Context, now clock) (loop.Result, error) {
	// Not before the changed pass has compared a row for the last time, or its owner's list could keep a ghost of it.
	before := now().Add(-max(p.r.cfg.Retention, p.r.cfg.Longest+2*margin))
	n, err := p.r.store.Purge(ctx, before, purgeBatch)
	p.r.metrics.purged.Add(float64(n))
	if err != nil {
		return loop.Result{}, err
	}
	lines, err := p.r.store.PurgeHistory(ctx, before, purgeBatch)
	return loop.Result{More: n == purgeBatch || lines == purgeBatch}, err
}
