package worker

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/duetime/duetime/internal/batcher"
	"github.com/duetime/duetime/internal/settle"
	"github.com/duetime/duetime/pkg/worker"
)

const (
	maxQueuedEvents   = 10_000                 // events that wait for the hooks; more are dropped
	maxEventsPerCall  = 100                    // that the hooks' goroutine takes at once
	hookTimeout       = 5 * time.Second        // of one hook with one event
	abandonHooksAfter = 100 * time.Millisecond // the end of the hooks' contexts, if one has not returned when the worker stops
)

// hooks calls a mux's hooks. A nil one has none.
type hooks struct {
	all     []func(ctx context.Context, e worker.Event)
	metrics hookMetrics
	log     *slog.Logger
	events  *batcher.Batcher[settle.Event, struct{}]
}

func newHooks(all []func(ctx context.Context, e worker.Event), m hookMetrics, log *slog.Logger) *hooks {
	if len(all) == 0 {
		return nil
	}
	h := &hooks{all: all, metrics: m, log: log}
	h.events = batcher.New(batcher.Config[settle.Event]{Calls: 1, Items: maxEventsPerCall, Queue: maxQueuedEvents}, h.report)
	return h
}

// adder returns the function that queues events, and never waits; nil if there are no hooks.
func (h *hooks) adder() func([]settle.Event) {
	if h == nil {
		return nil
	}
	return func(events []settle.Event) { h.metrics.unreported.Add(float64(h.events.Add(events...))) }
}

// run reports events until ctx ends and none waits. The end of calls ends the hooks' contexts and drops what waits. A hook
// that ignores this is left behind, so that the worker can end.
func (h *hooks) run(ctx, calls context.Context) {
	if h == nil {
		return
	}
	defer context.AfterFunc(ctx, h.events.Close)()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.events.Run(calls)
	}()
	select {
	case <-ended:
		return
	case <-calls.Done():
	}
	timer := time.NewTimer(abandonHooksAfter)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		h.log.Error("hook ignores the end of its context and is left behind")
	}
}

// flush reports what waits, on the caller's goroutine.
func (h *hooks) flush(ctx context.Context) {
	if h != nil {
		h.events.Flush(ctx)
	}
}

// report calls each hook with each event.
func (h *hooks) report(ctx context.Context, events []settle.Event) ([]struct{}, error) {
	for i, e := range events {
		if ctx.Err() != nil {
			h.metrics.unreported.Add(float64(len(events) - i))
			return nil, ctx.Err()
		}
		for _, hook := range h.all {
			h.call(ctx, hook, worker.Event(e))
		}
	}
	return nil, nil
}

func (h *hooks) call(ctx context.Context, hook func(ctx context.Context, e worker.Event), e worker.Event) {
	ctx, cancel := context.WithTimeout(ctx, hookTimeout)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			h.metrics.panics.Inc()
			h.log.ErrorContext(ctx, "hook panicked", slog.String("task_id", e.Task.ID.String()),
				slog.String("kind", e.Task.Kind), slog.Any("err", v), slog.String("stack", string(debug.Stack())))
		}
	}()
	hook(ctx, e)
}
