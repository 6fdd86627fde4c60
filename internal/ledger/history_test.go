package ledger

import (
	"context"
	"log/slog"
	"testing"

	"github.com/jmoiron/sqlx"
	dto "github.com/prometheus/client_model/go"

	"github.com/duetime/duetime/internal/protocol"
)

// lines counts what is recorded.
type lines int

func (n *lines) Record(_ context.Context, _ sqlx.ExtContext, events []protocol.Event) error {
	*n += lines(len(events))
	return nil
}

func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	var recorded lines
	h := newHistory(Config{Puts: Puts{Logger: slog.New(slog.DiscardHandler)}}, &recorded)
	for _, c := range []struct {
		events  int
		dropped float64
	}{{maxHistoryLines - 1, 0}, {3, 2}, {1000, 1002}} {
		h.add(make([]protocol.Event, c.events))
		var m dto.Metric
		if err := h.dropped.Write(&m); err != nil {
			t.Fatal(err)
		}
		if got := m.GetCounter().GetValue(); got != c.dropped {
			t.Errorf("dropped %v lines, want %v", got, c.dropped)
		}
	}
	if h.lines.Flush(t.Context()); recorded != maxHistoryLines {
		t.Errorf("%d lines waited, want %d", recorded, maxHistoryLines)
	}
}
