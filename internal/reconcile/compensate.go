package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// compensate puts the rows that the messages name, and wakes the rebuild pass if a message asks for a rebuild. That pass
// reads the markers itself, so that many requests make one rebuild. compensate returns nil, so that the messages count as
// read, only after Redis has taken every row's current state. Rows of failed shards are left to the changed pass: other
// shards' messages must not wait for a node that is away.
func (r *Reconciler) compensate(ctx context.Context, batch []protocol.Compensation) error {
	var ids []task.ID
	for _, c := range batch {
		ids = append(ids, c.IDs...)
		if len(c.Rebuild) > 0 {
			loop.Rouse(r.wake)
		}
	}
	for chunk := range slices.Chunk(ids, page) {
		if err := r.putIDs(ctx, chunk); err != nil {
			return err
		}
	}
	return nil
}

// putIDs makes the index hold what the rows say. An id without a row can't be looked up in the index, whose members need
// the row's names: the audit finds its entry.
func (r *Reconciler) putIDs(ctx context.Context, ids []task.ID) error {
	rows, err := r.store.Entries(ctx, ids)
	if err != nil {
		return fmt.Errorf("read %d compensated rows: %w", len(ids), err)
	}
	return r.putRows(ctx, "compensated", rows)
}

// follow makes the index hold what a transaction of the daemon has committed, counts its ticks, and wakes what waited behind
// its tasks. Of rows that went to another queue the old entries are removed afterwards: a task with two entries fires once, one
// without an entry would wait for a sweep.
func (r *Reconciler) follow(ctx context.Context, reason string, tx *ledger.Tx) error {
	r.metrics.ticks.Count(tx.Ticks())
	written := tx.Touched(0)
	woken, err := ledger.WakeBehind(ctx, r.store, r.cfg.Hooks, tx, nil, nil)
	switch {
	case err != nil:
		r.cfg.Logger.DebugContext(ctx, "successors not woken", slog.Any("err", err))
	case woken != nil:
		written = append(written, woken.Touched(0)...)
	}
	if err := r.putWritten(ctx, reason, written); err != nil {
		return err
	}
	if err := r.putRows(ctx, reason, tx.Left()); !errors.Is(err, errStillMoving) {
		return err
	}
	return nil // their writers put them
}

// putWritten puts rows as any writer puts what it has committed: the index refuses a version that is older than its own, so nothing is
// read before or afterwards. It leaves rows of failed shards to the changed pass.
func (r *Reconciler) putWritten(ctx context.Context, reason string, rows []task.Task) error {
	if r.index == nil || len(rows) == 0 {
		return nil
	}
	index := r.comparedIndex()
	if err := index.Put(ctx, rows); err != nil {
		return err
	}
	r.report(ctx, reason, len(rows)-r.leaveSkipped(index, rows))
	return nil
}

// errUncompared says that a shard failed in an earlier pass: the changed pass compares its rows first.
var errUncompared = errors.New("not yet compared since it failed")

// putRows makes the index, if there is one, hold what rows say that were changed just now. It leaves rows of failed shards to the
// changed pass.
func (r *Reconciler) putRows(ctx context.Context, reason string, rows []task.Task) error {
	if r.index == nil || len(rows) == 0 {
		return nil
	}
	now, err := r.clock(ctx)
	if err != nil {
		return err
	}
	s := r.sweep(pass{}, now)
	s.index = r.comparedIndex()
	err = s.mend(ctx, reason, rows, putAlways)
	if err != nil && !errors.Is(err, errStillMoving) {
		return err
	}
	r.leaveSkipped(s.index, rows)
	return err
}

// comparedIndex is the index without the shards that the changed pass has yet to compare.
func (r *Reconciler) comparedIndex() *reachable {
	x := &reachable{Index: r.index, failed: map[int]error{}}
	for shard := range r.uncompared.all() {
		x.failed[shard] = errUncompared
	}
	return x
}

// leaveSkipped leaves the rows of failed shards to the changed pass, and returns their number.
func (r *Reconciler) leaveSkipped(x *reachable, rows []task.Task) (n int) {
	for _, row := range rows {
		if x.skips(row.Shard) {
			r.uncompared.add(row.Shard, row.UpdatedAt, row.ID)
			n++
		}
	}
	return n
}
