package worker

import (
	"context"
	"log/slog"
)

// takeOver notes that the partitions are this worker's, before anything of them runs, and returns those that the last worker
// left with nothing running. Where that can't be told, none is.
func (q *queue) takeOver(parts []int) map[int]bool {
	if len(parts) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(q.intake, clockEvery)
	defer cancel()
	left, err := q.store.TakeOver(ctx, q.name, q.holder, parts)
	if err != nil {
		q.Logger.WarnContext(ctx, "all that is due is suspect", slog.String("queue", q.name), slog.Int("n", len(parts)), slog.Any("err", err))
		return nil
	}
	clean := map[int]bool{}
	for _, part := range left {
		clean[part] = true
	}
	return clean
}

// handOver notes that the partitions are left in good order, but for those of which something is in hand: that may yet end
// the process. So may a handler that was left behind, of whichever partition.
func (q *queue) handOver(parts []int, inHand map[int]bool) {
	var left []int
	for _, part := range parts {
		if !inHand[part] {
			left = append(left, part)
		}
	}
	if len(left) == 0 || q.abandoned.Load() > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if err := q.store.HandOver(ctx, q.name, q.holder, left, q.clock.Now()); err != nil {
		q.Logger.WarnContext(ctx, "partitions not handed over", slog.String("queue", q.name), slog.Int("n", len(left)), slog.Any("err", err))
	}
}
