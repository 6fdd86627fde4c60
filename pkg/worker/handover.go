package worker

import (
	"context"
	"log/slog"
	"time"
)

const takeOverTimeout = time.Second

// takeOver records that the partitions are this worker's, before anything of them runs, and returns those that the last worker
// left with nothing running. If the database doesn't answer, it returns none.
func (q *queue) takeOver(parts []int) map[int]bool {
	if len(parts) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(q.worker.intake, takeOverTimeout)
	defer cancel()
	left, err := q.handovers.TakeOver(ctx, q.name, q.holder, parts)
	if err != nil {
		q.log.WarnContext(ctx, "all that is due is suspect", slog.Int("n", len(parts)), slog.Any("err", err))
		return nil
	}
	clean := map[int]bool{}
	for _, part := range left {
		clean[part] = true
	}
	return clean
}

// handOver records that the partitions are left in good order, but for busy ones: what is in hand may yet end the process. So
// may a handler that was left behind, or a task that a look found, of whichever partition.
func (q *queue) handOver(parts []int, busy map[int]bool) {
	var left []int
	for _, part := range parts {
		if !busy[part] {
			left = append(left, part)
		}
	}
	if len(left) == 0 || q.worker.settler.HasAbandoned() || q.hold.FoundInHand() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if err := q.handovers.HandOver(ctx, q.name, q.holder, left, q.worker.clock.Now()); err != nil {
		q.log.WarnContext(ctx, "partitions not handed over", slog.Int("n", len(left)), slog.Any("err", err))
	}
}
