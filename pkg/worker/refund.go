package worker

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/pkg/task"
)

// refundEvery is how often a stopping worker looks again at rows that are still locked.
const refundEvery = 10 * time.Millisecond

// refund takes back the attempts of suspects that were charged beforehand and then didn't run to an end here, because
// the worker stops or lost their partition: no handler failed. It does what it can in leaveTimeout; a charge that stays
// costs the task one attempt. The transaction of a cancelled handler is rolled back beside us, so its rows may be locked
// for a moment longer: they are looked at again.
func (w *Worker) refund(hints []*hold.Hint) {
	charged := map[task.ID]int64{}
	for _, h := range hints {
		if h.Charge.State == hold.Charged && !h.CommitUnknown {
			charged[h.ID] = h.Charge.Version
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	for len(charged) > 0 {
		err := w.refundRows(ctx, charged)
		if err == nil && len(charged) > 0 {
			rest(ctx, refundEvery)
			err = ctx.Err()
		}
		if err != nil {
			w.Logger.WarnContext(ctx, "attempts not given back", slog.Int("n", len(charged)), slog.Any("err", err))
			return
		}
	}
}

// refundRows takes back the charges of the rows that nobody has locked, and leaves the others in charged.
func (w *Worker) refundRows(ctx context.Context, charged map[task.ID]int64) error {
	tx, err := w.store.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after the commit it does nothing
	rows, now, err := w.store.LockFree(ctx, tx, slices.Collect(maps.Keys(charged)))
	if err != nil {
		return err
	}
	var back []task.Task
	for _, row := range rows {
		if row.State == task.Pending && row.Version == charged[row.ID] {
			back = append(back, takeBack(row, now))
		}
	}
	if len(back) > 0 {
		if err := w.store.Save(ctx, tx, back); err != nil {
			return err
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		w.after.put(back)
	}
	for _, row := range rows {
		delete(charged, row.ID)
	}
	return nil
}
