package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/duetime/duetime/internal/hold"
)

// What becomes of a hint after the stop (SIGTERM), by where it is:
//
//   - in Kafka: nothing fetches it any more (queue.fetch ends with the intake).
//   - waiting in the hold: no runner takes it any more (queue.run). It is forgotten when the group is left (queue.endGeneration),
//     its offset stays uncommitted, and whoever has the partition next reads it again. A look of another worker finds again what
//     a look had found here.
//   - in hand of a runner: its handler has Config.Drain to finish. If its transaction commits, it is settled. Else the
//     transaction is rolled back, uncharged, and a charge beforehand is refunded (queue.run).
//   - settled: its offset is committed if all hints before it in its partition are settled too (queue.commitLast); if not, or if
//     the group was left before, the partition's next worker reads it again and finds its task done. Dead letters are
//     sent without delay (letters.go); entries of the index are the client's to write, until its Close.
//
// The group is left when nothing is in hand any more, and leaveAfter at the latest: a handler that goes on for long must not keep
// all tasks of the worker's partitions waiting. The partitions are handed over with nothing running (queue.handOver), but for
// those of which something is in hand.

// errDrained is the cause with which handlers end that took longer than the drain.
var errDrained = errors.New("handler is rolled back: it exceeded worker.drain (Config.Drain)")

const (
	leaveAfter   = 500 * time.Millisecond // the stop, though handlers still run
	leaveTimeout = 500 * time.Millisecond // for each of the last things before the worker ends
)

// lifecycle holds what Run started, by the order in which it must end.
type lifecycle struct {
	runners, tidying, consumers, following *stage
	calls                                  *stage // has no goroutine: its end cancels calls of the last stage
}

// stage is some goroutines that end together.
type stage struct {
	sync.WaitGroup

	ctx   context.Context //nolint:containedctx // What its goroutines end by.
	cause context.CancelCauseFunc
}

func newStage() *stage {
	s := &stage{}
	s.ctx, s.cause = context.WithCancelCause(context.Background())
	return s
}

// end ends the goroutines.
func (s *stage) end() { s.cause(nil) }

// stop ends the goroutines and waits for them.
func (s *stage) stop() {
	s.end()
	s.Wait()
}

// waitFor waits for the goroutines, at most for d.
func (s *stage) waitFor(d time.Duration) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(d):
	}
}

func newLifecycle() *lifecycle {
	return &lifecycle{
		runners: newStage(), tidying: newStage(), consumers: newStage(), following: newStage(), calls: newStage(),
	}
}

func (l *lifecycle) begin(w *Worker) {
	l.following.Go(func() { w.letters.run(l.following.ctx, l.calls.ctx) })
	l.following.Go(func() { w.hooks.run(l.following.ctx, l.calls.ctx) })
	l.tidying.Go(func() { w.tidy(l.tidying.ctx) })
	l.tidying.Go(func() { w.watchRequests(l.tidying.ctx) })
	for _, q := range w.queues {
		l.tidying.Go(func() { (&lessee{queue: q}).run(l.tidying.ctx) })
		if w.cfg.Late > 0 {
			l.tidying.Go(func() { q.looker.run(w.intake) }) // what it finds later nobody takes
		}
		for lane, n := range w.cfg.runners() {
			for range n {
				l.runners.Go(func() { q.run(l.runners.ctx, hold.Lane(lane)) })
			}
		}
		l.consumers.Go(func() {
			if err := w.stream.Consume(l.consumers.ctx, q.name, q.consume); err != nil && l.consumers.ctx.Err() == nil {
				w.stop(fmt.Errorf("consume queue %s: %w", q.name, err))
			}
		})
	}
}

// end stops the stages in the order of the flow, but leaves the groups after leaveAfter even if handlers still run. The runners
// end by themselves; those that have not after Config.Drain are cancelled.
func (l *lifecycle) end(w *Worker) {
	w.cfg.Logger.Info("worker draining")
	late := time.AfterFunc(w.cfg.Drain, func() {
		over := fmt.Errorf("%w of %v after the stop", errDrained, w.cfg.Drain)
		w.cfg.Logger.Warn("running handlers are rolled back, uncharged", slog.Any("err", over))
		l.runners.cause(over)
	})
	l.runners.waitFor(leaveAfter)
	for _, q := range w.queues {
		w.settler.Refund(q.hold.ForgetFound())
		q.commitLast()
	}
	l.consumers.stop()
	l.runners.Wait()
	late.Stop()
	l.runners.stop()
	l.tidying.stop()
	for _, q := range w.queues {
		w.settler.Refund(q.hold.ForgetFound()) // that were in hand, or had a message, when the groups were left
	}
	late = time.AfterFunc(leaveTimeout, l.calls.end)
	l.following.stop()
	late.Stop()
	l.calls.stop()
}
