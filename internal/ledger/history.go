package ledger

import (
	"context"
	"log/slog"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/batcher"
	"github.com/duetime/duetime/internal/metric"
	"github.com/duetime/duetime/internal/protocol"
)

const (
	historyInterval = 200 * time.Millisecond // from a line to its write, with all that came meanwhile
	maxHistoryLines = 10_000                 // that wait for a write
	historyTimeout  = 2 * time.Second        // of one write
)

// recorder is what the history needs of the store.
type recorder interface {
	// Record appends lines to the history; a nil q means a transaction of its own.
	Record(ctx context.Context, q sqlx.ExtContext, events []protocol.Event) error
}

// history writes lines behind their callers' backs. What doesn't fit, or is refused, is dropped and counted.
type history struct {
	to      recorder
	dropped prometheus.Counter
	logger  *slog.Logger
	lines   *batcher.Batcher[protocol.Event, struct{}]
}

func newHistory(cfg Config, to recorder) *history {
	h := &history{
		to: to, logger: cfg.Logger,
		dropped: metric.Shared(cfg.Metrics, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "duetime_history_dropped_total",
			Help: "Lines of the history that were dropped: too many waited, or the database refused them.",
		})),
	}
	bounds := batcher.Config[protocol.Event]{Calls: 1, Items: maxHistoryLines, Queue: maxHistoryLines, Linger: historyInterval}
	h.lines = batcher.New(bounds, h.write)
	return h
}

// add never waits.
func (h *history) add(events []protocol.Event) { h.dropped.Add(float64(h.lines.Add(events...))) }

func (h *history) write(ctx context.Context, events []protocol.Event) ([]struct{}, error) {
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	err := h.to.Record(ctx, nil, events)
	if err != nil {
		h.dropped.Add(float64(len(events)))
		h.logger.DebugContext(ctx, "history dropped", "n", len(events), "err", err)
	}
	return nil, err
}
