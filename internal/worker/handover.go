package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/duetime/duetime/internal/loop"
)

const (
	takeOverTimeout  = time.Second
	takeOverInterval = time.Second // between tries
)

// takeOver records that the partitions are this worker's, before anything of them runs, and returns those that the last worker
// left with nothing running. If the database doesn't answer, it returns none, and false.
func (q *queue) takeOver(parts []int) (clean map[int]bool, recorded bool) {
	if len(parts) == 0 {
		return nil, true
	}
	left, err := q.tryTakeOver(q.worker.intake, parts)
	if err != nil {
		q.log.Warn("all that is due is suspect", slog.Int("n", len(parts)), slog.Any("err", err))
		return nil, false
	}
	clean = map[int]bool{}
	for _, part := range left {
		clean[part] = true
	}
	return clean, true
}

// takeOverLate records a generation's partitions that could not be recorded at its beginning. Until then the row says that the
// last worker left them with nothing running: if this one crashed, the next would have no suspects.
func (q *queue) takeOverLate(ctx context.Context, parts []int) {
	for {
		loop.Sleep(ctx, takeOverInterval)
		if ctx.Err() != nil {
			return
		}
		if _, err := q.tryTakeOver(ctx, parts); err == nil {
			return
		}
	}
}

func (q *queue) tryTakeOver(ctx context.Context, parts []int) ([]int, error) {
	ctx, cancel := context.WithTimeout(ctx, takeOverTimeout)
	defer cancel()
	return q.handovers.TakeOver(ctx, q.name, q.holder, parts)
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
