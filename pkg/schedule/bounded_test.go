package schedule

import (
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/duetime/duetime/pkg/task"
)

func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	h := newHistory(Config{}.withDefaults(), nil, newMetrics(nil))
	for _, c := range []struct {
		events  int
		dropped float64
	}{{historyMost - 1, 0}, {3, 2}, {1000, 1002}} {
		h.add(make([]task.Event, c.events))
		var m dto.Metric
		if err := h.m.untold.Write(&m); err != nil {
			t.Fatal(err)
		}
		if got := m.GetCounter().GetValue(); got != c.dropped || len(h.waiting) > historyMost {
			t.Errorf("dropped %v lines, want %v; %d wait", got, c.dropped, len(h.waiting))
		}
	}
}
