package settle

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
)

// The connection of a batch can end for two reasons that look alike: MySQL is away, or a handler made the server end the
// connection (a packet that is too large, a KILL, a transaction idle for too long, a full table). A probe on another
// connection tells them apart: race 10. If the probe fails, the gate closes, and no attempt is charged. If it succeeds,
// each hint whose handler was called counts a loss. It is unknown which hint is the culprit. So the hints run together
// once more, then each by itself, and a hint that still loses its connection is charged an attempt.
const (
	splitAtLoss  = 2 // losses of a hint, then its task runs by itself
	chargeAtLoss = 4 // losses of a hint, then its task is charged an attempt

	probeTimeout = time.Second
	probeRows    = 256 // rows of about 1 KB that a server with a full disk has no room for
	probeTries   = 16  // other connections of the pool may have ended with the batch's
)

// lostConnection decides what follows an error that looks as if MySQL were away. It reports whether the batch goes on at
// once.
func (b *batch) lostConnection(ctx context.Context, cause error) (goOn bool) {
	s := b.settler
	if !b.called || !s.databaseAnswers(ctx, b.nextLossCharges()) {
		if ctx.Err() == nil {
			s.gate.Close(ctx, cause)
		}
		b.putOff(0)
		return false
	}
	s.log.DebugContext(ctx, "connection lost in a batch", slog.Int("n", len(b.hints)), slog.Any("err", cause))
	if b.chargeLoss(ctx, cause) {
		return true
	}
	b.putOff(jitter(hold.RetryInterval))
	return false
}

// chargeLoss counts a loss: the transaction failed after handlers were called, although MySQL answers. It reports
// whether the batch goes on at once, because the culprit is to be charged, or the possible culprits were sent away. The
// charge commits only if MySQL takes transactions.
func (b *batch) chargeLoss(ctx context.Context, cause error) (goOn bool) {
	called := b.calledHints()
	if len(called) == 0 {
		return false
	}
	for _, h := range called {
		h.Losses++
	}
	s, first := b.settler, called[0]
	switch {
	case len(b.hints) > 1:
		s.metrics.retried.Inc()
		b.splitLost(called)
		loop.Sleep(ctx, jitter(rollbackInterval))
	case first.Call.Outside || first.Losses >= chargeAtLoss:
		first.Failure = hold.Failure{Err: lossError{first.Losses, cause}, Version: first.Call.Version}
		s.log.WarnContext(ctx, "handler failed", slog.String("task_id", first.ID.String()), slog.String("kind", first.Kind),
			slog.Any("err", first.Failure.Err))
	default:
		s.metrics.retried.Inc()
		loop.Sleep(ctx, jitter(hold.RetryInterval/4))
	}
	return true
}

// nextLossCharges reports whether the batch has one hint, and the next loss would charge it.
func (b *batch) nextLossCharges() bool {
	return len(b.hints) == 1 && (b.hints[0].Call.Outside || b.hints[0].Losses+1 >= chargeAtLoss)
}

// calledHints returns the hints whose handler was called since the transaction began.
func (b *batch) calledHints() []*hold.Hint {
	return slices.DeleteFunc(slices.Clone(b.hints), func(h *hold.Hint) bool { return h.Call.Version == 0 })
}

// splitLost sends away the hints with splitAtLoss losses.
func (b *batch) splitLost(called []*hold.Hint) {
	lost := slices.DeleteFunc(called, func(h *hold.Hint) bool { return h.Losses < splitAtLoss })
	b.sendAway(lost...)
	for _, h := range lost {
		h.LookAt = b.settler.clock.Now() // without sendAway's delay: tasks of the batch have waited long enough
	}
}

// databaseAnswers reports whether MySQL takes a transaction that writes; a read-only server, or one with a full disk,
// does not. The transaction is rolled back. A thorough probe writes more than a server with a full disk has room for: it
// is used before an attempt is charged, since a full disk is no handler's fault.
func (s *Settler) databaseAnswers(ctx context.Context, thorough bool) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	n := 1
	if thorough {
		n = probeRows
	}
	err := s.probeWrite(ctx, n)
	for tries := 1; tries < probeTries && s.store.Unavailable(err) && ctx.Err() == nil; tries++ {
		err = s.probeWrite(ctx, n)
	}
	return ctx.Err() == nil && !s.store.Unavailable(err)
}

func (s *Settler) probeWrite(ctx context.Context, n int) error {
	tx, err := s.store.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // a lost connection rolls back too
	events := make([]protocol.Event, n)
	for i := range events {
		events[i] = protocol.Event{At: s.clock.Now(), Name: "probe", Actor: protocol.ActorWorker, Detail: strings.Repeat("-", 1000)}
	}
	return s.store.Record(ctx, tx, events)
}
