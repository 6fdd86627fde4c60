package reconcile

import (
	"context"

	"github.com/duetime/duetime/internal/loop"
)

// Passes returns the passes of a term by their names, for a caller that says when each runs: tests play races with them. Lead
// runs the same passes in loops. The pass "compensate" reads messages until its context ends.
func (r *Reconciler) Passes(epoch int64, term Term) map[string]func(context.Context) (loop.Result, error) {
	named := map[string]func(context.Context) (loop.Result, error){
		"compensate": func(ctx context.Context) (loop.Result, error) {
			return loop.Result{}, r.stream.Compensations(ctx, r.compensate)
		},
	}
	for _, p := range r.passes() {
		named[p.name] = func(ctx context.Context) (loop.Result, error) { return r.runOnce(ctx, p, epoch, term) }
	}
	return named
}
