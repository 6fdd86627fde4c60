package settle

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/precise"
	"github.com/duetime/duetime/pkg/task"
)

const (
	maxRollbacks     = 3                    // of one batch, then its tasks are split
	rollbackInterval = 5 * time.Millisecond // from a rollback to the next transaction
)

// batch settles some hints, in one transaction if nothing fails and in several otherwise.
type batch struct {
	settler *Settler
	hints   []*hold.Hint
	takenAt time.Time        // on the database's clock; zero for a reader's
	sleeper *precise.Sleeper // of the runner; nil for none
	careful bool             // a call failed: each call gets a savepoint
	halved  map[task.ID]bool // tasks of a failed batch call, which is halved
	called  bool             // a handler was called in the present transaction
}

// Settle takes the hints through transactions, and returns when each is settled or has a later LookAt. sleeper is the
// runner's, and may be nil. When ctx ends, the open transaction is rolled back, uncharged.
func (s *Settler) Settle(ctx context.Context, hints []*hold.Hint, sleeper *precise.Sleeper) {
	b := &batch{settler: s, hints: hints, takenAt: s.clock.Now(), sleeper: sleeper}
	for rollbacks := 0; len(b.hints) > 0; {
		err := b.transact(ctx)
		switch {
		case err == nil:
			s.gate.committed()
			return
		case errors.Is(err, errRetryNow):
			continue
		case errors.Is(err, errSplit):
			b.sendAway(b.hints...)
			return
		case ctx.Err() != nil:
			b.putOff(0)
			return
		case errors.Is(err, errCountLoss) && b.chargeLoss(ctx, err):
			continue
		case errors.Is(err, errAskRows):
			if b.chargeLoss(ctx, err) {
				continue
			}
			b.putOff(jitter(hold.RetryInterval)) // the server may answer this for a while
			return
		case s.store.Unavailable(err):
			if !b.lostConnection(ctx, err) {
				return
			}
		case s.store.Retryable(err) && rollbacks < maxRollbacks-1:
			rollbacks++
			s.metrics.retried.Inc()
			s.log.DebugContext(ctx, "batch rolled back", slog.Int("n", len(b.hints)), slog.Any("err", err))
			loop.Sleep(ctx, jitter(rollbackInterval))
		default:
			if !s.store.Retryable(err) && b.chargeLoss(ctx, err) {
				continue
			}
			s.log.WarnContext(ctx, "batch given back", slog.Int("n", len(b.hints)), slog.Any("err", err))
			b.sendAway(b.hints...)
			return
		}
	}
}

// putOff makes the hints due after the delay.
func (b *batch) putOff(delay time.Duration) {
	for _, h := range b.hints {
		h.LookAt = b.settler.clock.Now().Add(delay)
	}
}

// sendAway takes hints out of the batch, so that each gets a transaction of its own.
func (b *batch) sendAway(hints ...*hold.Hint) {
	for _, h := range hints {
		h.Lane = max(h.Lane, hold.LaneSingle)
		h.Looks++
		h.LookAt = b.settler.clock.Now().Add(jitter(hold.RetryInterval / 2))
	}
	b.hints = slices.DeleteFunc(slices.Clone(b.hints), func(h *hold.Hint) bool { return slices.Contains(hints, h) })
}

// jitter returns a random delay from d to 3d.
func jitter(d time.Duration) time.Duration {
	return d + rand.N(2*d) //nolint:gosec // Spreads load, guards nothing.
}
