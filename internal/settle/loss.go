package settle

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/pkg/task"
)

// The connection of a batch can end under it for two reasons that look alike: MySQL is away, or a handler did something that
// makes the server end the connection: a packet that is too large, a KILL, a transaction idle for too long, a full table of
// its own. A probe on another connection tells them apart. If it fails, MySQL is away: the gate closes, and nobody is charged.
// If it succeeds, each hint whose handler was called counts the loss. Nobody can tell which of them was the culprit, so they
// run together once more, then each by itself, and one that goes on losing its connection by itself is charged an attempt.
const (
	splitAtLoss  = 2 // losses after which the tasks of a batch run by themselves
	chargeAtLoss = 4 // losses, the last one by itself, after which a task is charged an attempt

	probeTimeout = time.Second
	probeRows    = 256 // rows of about 1 KB that a server with a full disk has no room for
	probeTries   = 16  // whoever ended the batch's connection may have ended others that wait in the pool
)

// lostConnection decides what an error means after which MySQL seemed to be away. It reports whether the batch goes on at once.
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

// chargeLoss counts that the transaction could not be brought to its end after handlers were called, though MySQL was there. It
// reports whether the batch goes on at once: the culprit is to be charged, or the suspects were sent away. A charge commits
// only where others' transactions do.
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
	case first.Call.Outside || first.Losses >= chargeAtLoss: // an outside handler has acted already
		first.Failure = hold.Failure{Err: lossError{first.Losses, cause}, Version: first.Call.Version}
		s.log.WarnContext(ctx, "handler failed", slog.String("task_id", first.ID.String()), slog.String("kind", first.Kind),
			slog.Any("err", first.Failure.Err))
	default:
		s.metrics.retried.Inc()
		loop.Sleep(ctx, jitter(hold.RetryInterval/4))
	}
	return true
}

// nextLossCharges reports whether the batch is one hint that the next loss would charge.
func (b *batch) nextLossCharges() bool {
	return len(b.hints) == 1 && (b.hints[0].Call.Outside || b.hints[0].Losses+1 >= chargeAtLoss)
}

// calledHints returns the hints whose handler was called since the transaction began.
func (b *batch) calledHints() []*hold.Hint {
	return slices.DeleteFunc(slices.Clone(b.hints), func(h *hold.Hint) bool { return h.Call.Version == 0 })
}

// splitLost sends those hints away that have lost their connection together often enough.
func (b *batch) splitLost(called []*hold.Hint) {
	lost := slices.DeleteFunc(called, func(h *hold.Hint) bool { return h.Losses < splitAtLoss })
	b.sendAway(lost...)
	for _, h := range lost {
		h.LookAt = b.settler.clock.Now() // its neighbours have waited long enough
	}
}

// databaseAnswers reports whether MySQL takes a transaction that writes; a server that is read-only, or whose disk is full,
// does not. What it writes is rolled back. thoroughly writes as much as a server with a full disk has no room for: an attempt
// is to be charged for a lost connection, and a full disk is nobody's fault.
func (s *Settler) databaseAnswers(ctx context.Context, thoroughly bool) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	n := 1
	if thoroughly {
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
	defer func() { _ = tx.Rollback() }() // nothing of it is to stay, and a connection that is lost keeps nothing
	events := make([]task.Event, n)
	for i := range events {
		events[i] = task.Event{At: s.clock.Now(), Name: "probe", Actor: task.ActorWorker, Detail: strings.Repeat("-", 1000)}
	}
	return s.store.Record(ctx, tx, events)
}
