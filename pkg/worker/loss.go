package worker

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/pkg/task"
)

// The connection of a batch can end under it for two reasons that look alike: MySQL is away, or a handler did something that
// makes the server end the connection: a packet that is too large, a KILL, a transaction idle for too long, a full table of
// its own. A probe on another connection tells them apart. If it fails, MySQL is away: the gate closes, and nobody is charged.
// If it succeeds, each hint whose handler was called counts the loss. Nobody can tell which of them was the culprit, so they
// run together once more, then each alone, and one that goes on losing its connection alone is charged an attempt.
const (
	partAtLoss   = 2 // losses after which the tasks of a batch run alone
	chargeAtLoss = 4 // losses, the last one alone, after which a task is charged an attempt

	probeRows  = 256 // rows of about 1 KB that a server with a full disk has no room for
	probeTries = 16  // whoever ended the batch's connection may have ended others that wait in the pool
)

// lostConnection decides what an error means after which MySQL seemed to be away. It reports whether the batch goes on at once.
func (b *batch) lostConnection(ctx context.Context, cause error) (again bool) {
	if !b.called || !b.answers(ctx, b.chargeable()) {
		if ctx.Err() == nil {
			b.pause(ctx, cause)
		}
		b.putOff(0)
		return false
	}
	b.Logger.DebugContext(ctx, "connection lost in a batch", slog.Int("n", len(b.hints)), slog.Any("err", cause))
	if b.noteLoss(ctx, cause) {
		return true
	}
	b.putOff(jitter(hold.RetryInterval))
	return false
}

// noteLoss counts that the transaction could not be brought to its end after handlers were called, though MySQL was there. It
// reports whether the batch goes on at once: the culprit is to be charged, or those are gone that may be it. A charge commits
// only where others' transactions do.
func (b *batch) noteLoss(ctx context.Context, cause error) (again bool) {
	called := b.countLoss()
	switch {
	case len(called) == 0:
		return false
	case len(b.hints) > 1:
		b.metrics.retried.Inc()
		b.partLost(called)
		rest(ctx, jitter(5*time.Millisecond))
		return true
	case chargeable(called[0]):
		h := called[0]
		h.Failure.Err, h.Failure.Version = lossError{h.Losses, cause}, h.Call.Version
		b.Logger.WarnContext(ctx, "handler failed", slog.String("task_id", h.ID.String()), slog.String("kind", h.Kind), slog.Any("err", h.Failure.Err))
		return true
	default:
		b.metrics.retried.Inc()
		rest(ctx, jitter(hold.RetryInterval/4))
		return true
	}
}

// countLoss counts the loss for each hint whose handler was called since the transaction began, and returns those hints.
func (b *batch) countLoss() []*hold.Hint {
	var called []*hold.Hint
	for _, h := range b.hints {
		if h.Call.Version != 0 {
			h.Losses++
			called = append(called, h)
		}
	}
	return called
}

// partLost sends those hints away to run alone that have lost their connection together often enough.
func (b *batch) partLost(called []*hold.Hint) {
	apart := map[*hold.Hint]bool{}
	for _, h := range called {
		if h.Losses >= partAtLoss {
			b.leave(h)
			h.LookAt = b.clock.Now() // its neighbours have waited long enough
			apart[h] = true
		}
	}
	kept := b.hints[:0:0]
	for _, h := range b.hints {
		if !apart[h] {
			kept = append(kept, h)
		}
	}
	b.hints = kept
}

// chargeable reports whether the batch is one hint that the next loss would charge.
func (b *batch) chargeable() bool {
	return len(b.hints) == 1 && (b.hints[0].Call.Outside || b.hints[0].Losses+1 >= chargeAtLoss)
}

// chargeable reports whether the hint, which ran alone, has lost its connection too often. An outside handler has acted
// already: it is not called again without a charge.
func chargeable(h *hold.Hint) bool { return h.Call.Outside || h.Losses >= chargeAtLoss }

// answers reports whether MySQL takes a transaction that writes; a server that is read-only, or whose disk is full, does not.
// What it writes is rolled back. thoroughly writes as much as a server with a full disk has no room for: an attempt is to be
// charged for a lost connection, and a full disk is nobody's fault.
func (w *Worker) answers(ctx context.Context, thoroughly bool) bool {
	ctx, cancel := context.WithTimeout(ctx, clockEvery)
	defer cancel()
	n := 1
	if thoroughly {
		n = probeRows
	}
	err := w.writes(ctx, n)
	for tries := 1; tries < probeTries && w.store.Unavailable(err) && ctx.Err() == nil; tries++ {
		err = w.writes(ctx, n)
	}
	return ctx.Err() == nil && !w.store.Unavailable(err)
}

func (w *Worker) writes(ctx context.Context, n int) error {
	tx, err := w.store.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing of it is to stay, and a connection that is lost keeps nothing
	events := make([]task.Event, n)
	for i := range events {
		events[i] = task.Event{At: w.clock.Now(), Name: "probe", Actor: task.ActorWorker, Detail: strings.Repeat("-", 1000)}
	}
	return w.store.Record(ctx, tx, events)
}

// lossError is the failure of a handler whose transaction was lost in each of its runs.
type lossError struct {
	runs  int
	cause error
}

func (e lossError) Error() string {
	return fmt.Sprintf("its transaction was lost in each of %d runs while the database answered others: %v", e.runs, e.cause)
}

func (e lossError) Unwrap() error { return e.cause }
