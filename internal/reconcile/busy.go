package reconcile

import (
	"context"
	"slices"
	"time"

	"github.com/duetime/duetime/internal/protocol"
)

const (
	busyRows = 20
	busyTime = time.Second // tasks run if so many rows have changed within it
)

// busy reports whether tasks run now: whether enough rows have changed within busyTime, but for those that an operation has
// changed at these moments, in order. A row that is moved to another shard does not count as changed.
func (r *Reconciler) busy(ctx context.Context, now clock, operated ...time.Time) (bool, error) {
	to := now()
	from, n := to.Add(-busyTime), 0
	for _, at := range slices.Concat(operated, []time.Time{to}) {
		if at.After(from) {
			changed, err := r.store.Changed(ctx, from, at, protocol.Cursor{}, busyRows-n)
			if err != nil {
				return false, err
			}
			if n += len(changed); n == busyRows {
				return true, nil
			}
		}
		from = later(from, at.Add(time.Millisecond))
	}
	return false, nil
}
