package broker

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/metric"
)

type metrics struct {
	reconnects prometheus.Counter
	skipped    prometheus.Counter
}

func newMetrics(r prometheus.Registerer) metrics {
	return metrics{
		reconnects: metric.Shared(r, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "duetime_stream_readers_remade_total",
			Help: "Partition readers given a new connection pool because they made no progress.",
		})),
		skipped: metric.Shared(r, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "duetime_stream_skipped_total",
			Help: "Offsets stepped over because the broker serves no record there.",
		})),
	}
}
