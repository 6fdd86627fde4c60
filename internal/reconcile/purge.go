package reconcile

import (
	"context"

	"github.com/duetime/duetime/internal/loop"
)

const purgeBatch = 500 // rows a statement: short locks

// purge removes finished rows past their retention.
type purge struct{ r *Reconciler }

func (p *purge) pass(ctx context.Context, now clock) (loop.Result, error) {
	n, err := p.r.store.Purge(ctx, now().Add(-p.r.cfg.Retention), purgeBatch)
	p.r.metrics.purged.Add(float64(n))
	return loop.Result{More: n == purgeBatch}, err
}
