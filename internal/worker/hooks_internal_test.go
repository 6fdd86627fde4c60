package worker

import (
	"context"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/duetime/duetime/internal/settle"
	"github.com/duetime/duetime/pkg/worker"
)

// Events that don't fit are dropped and counted, so that slow hooks don't fill the memory.
func TestEventsBeyondTheQueueAreDropped(t *testing.T) {
	t.Parallel()
	m := newHookMetrics(prometheus.NewRegistry())
	calls := 0
	h := newHooks([]func(context.Context, worker.Event){func(context.Context, worker.Event) { calls++ }}, m, slog.New(slog.DiscardHandler))
	add := h.adder()
	add(make([]settle.Event, maxQueuedEvents-1))
	add(make([]settle.Event, 3))
	var dropped dto.Metric
	if err := m.unreported.Write(&dropped); err != nil || dropped.GetCounter().GetValue() != 2 {
		t.Errorf("%v events were dropped (%v), want 2", dropped.GetCounter().GetValue(), err)
	}
	h.flush(t.Context())
	if calls != maxQueuedEvents {
		t.Errorf("the hook was called %d times, want %d", calls, maxQueuedEvents)
	}
	if newHooks(nil, m, nil).adder() != nil {
		t.Error("events are made although there is no hook")
	}
}
