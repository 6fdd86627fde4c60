package reconcile

import (
	"context"
	"time"

	"github.com/duetime/duetime/internal/loop"
)

const (
	archiveAfter = 15 * time.Minute // of its end: until then whoever has just ended a task finds its row where it was
	archiveEvery = 10 * time.Second
	archiveBatch = 500 // rows moved by one transaction, which locks them
)

// archive moves tasks that ended a while ago out of the way of those that are pending.
func (r *Reconciler) archive(ctx context.Context, now clock) (loop.Result, error) {
	n, more, err := r.store.Archive(ctx, now().Add(-max(archiveAfter, r.unsettled())), archiveBatch)
	r.metrics.archived.Add(float64(n))
	return loop.Result{More: more}, err
}
