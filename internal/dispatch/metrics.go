package dispatch

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	published  prometheus.Counter
	passedOver prometheus.Counter
	fenced     prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	return &metrics{
		published: f.NewCounter(prometheus.CounterOpts{
			Name: "duetime_hints_published_total", Help: "Hints that Kafka acknowledged.",
		}),
		passedOver: f.NewCounter(prometheus.CounterOpts{
			Name: "duetime_hints_passed_over_total", Help: "Due entries taken out of the index unpublished, because Kafka kept refusing them or they could not be read.",
		}),
		fenced: f.NewCounter(prometheus.CounterOpts{
			Name: "duetime_fenced_total", Help: "Claims refused because a newer epoch stands in the shard.",
		}),
	}
}
