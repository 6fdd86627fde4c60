package worker

import (
	"context"
	"log/slog"

	"github.com/duetime/duetime/pkg/task"
)

// refund takes back the attempts of suspects that were charged beforehand and then didn't run to an end here, because
// the worker stops or lost their partition: no handler failed. It does what it can in a short time; a charge that stays
// costs the task one attempt.
func (w *Worker) refund(hints []*held) {
	charged := map[task.ID]int64{}
	var ids []task.ID
	for _, h := range hints {
		if h.charged && !h.unknown {
			charged[h.hint.ID] = h.chargedAt
			ids = append(ids, h.hint.ID)
		}
	}
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if err := w.refundRows(ctx, ids, charged); err != nil {
		w.Logger.WarnContext(ctx, "attempts not given back", slog.Int("n", len(ids)), slog.Any("err", err))
	}
}

func (w *Worker) refundRows(ctx context.Context, ids []task.ID, charged map[task.ID]int64) error {
	tx, err := w.store.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after the commit it does nothing
	rows, now, err := w.store.LockFree(ctx, tx, ids)
	if err != nil {
		return err
	}
	var back []task.Task
	for _, row := range rows {
		if row.State == task.Pending && row.Version == charged[row.ID] {
			back = append(back, takeBack(row, now))
		}
	}
	if len(back) == 0 {
		return nil
	}
	if err := w.store.Save(ctx, tx, back); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	w.after.put(back)
	return nil
}
