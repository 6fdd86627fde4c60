package stream

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/metric"
)

type metrics struct {
	undecodable *prometheus.CounterVec // what: queue, compensation
	remade      prometheus.Counter
	skipped     prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	return &metrics{
		undecodable: metric.Shared(r, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "duetime_stream_undecodable_total",
			Help: "Messages that could not be decoded, by what they were read as.",
		}, []string{"what"})),
		remade: metric.Shared(r, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "duetime_stream_readers_remade_total",
			Help: "Partition readers given a new connection pool because they made no progress.",
		})),
		skipped: metric.Shared(r, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "duetime_stream_skipped_total",
			Help: "Offsets stepped over because the broker serves no record there.",
		})),
	}
}
