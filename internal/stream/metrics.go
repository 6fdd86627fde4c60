package stream

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/metric"
)

type metrics struct {
	undecodable *prometheus.CounterVec // by what: queue, compensation
}

func newMetrics(r prometheus.Registerer) *metrics {
	return &metrics{
		undecodable: metric.Shared(r, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "duetime_stream_undecodable_total",
			Help: "Messages that could not be decoded, by what they were read as.",
		}, []string{"what"})),
	}
}
