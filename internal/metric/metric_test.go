package metric_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/duetime/duetime/internal/metric"
)

func calls(help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "calls_total", Help: help})
}

func wantCount(t *testing.T, c prometheus.Counter, want float64) {
	t.Helper()
	var m dto.Metric
	if err := c.Write(&m); err != nil || m.GetCounter().GetValue() != want {
		t.Errorf("counted %v (%v), want %v", m.GetCounter().GetValue(), err, want)
	}
}

func TestSharedCountsTogether(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	one, two := metric.Shared(reg, calls("Calls.")), metric.Shared(reg, calls("Calls."))
	one.Inc()
	two.Inc()
	wantCount(t, one, 2)
	found, err := reg.Gather()
	if err != nil || len(found) != 1 {
		t.Errorf("%d metrics (%v), want 1", len(found), err)
	}
}

func TestSharedWithoutARegistry(t *testing.T) {
	t.Parallel()
	alone := metric.Shared[prometheus.Counter](nil, calls("Calls."))
	alone.Inc()
	wantCount(t, alone, 1)
}

func TestSharedPanicsWhereTheNameIsTaken(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	metric.Shared(reg, calls("Calls."))
	defer func() {
		if recover() == nil {
			t.Error("a name that stands for something else was taken")
		}
	}()
	metric.Shared(reg, calls("Something else."))
}
