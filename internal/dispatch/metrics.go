package dispatch

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	published  prometheus.Counter
	passedOver prometheus.Counter
	fenced     prometheus.Counter
	publishing prometheus.Histogram
	lag        prometheus.Histogram
	heads      *heads
}

// publishBuckets end at the timeout of one publish; lagBuckets end where those of the workers' lag do.
var (
	publishBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}
	lagBuckets     = []float64{0, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}
)

func newMetrics(reg prometheus.Registerer, now func() time.Time) *metrics {
	f := promauto.With(reg)
	h := newHeads(now)
	if reg != nil {
		reg.MustRegister(h)
	}
	return &metrics{
		heads: h,
		published: f.NewCounter(prometheus.CounterOpts{
			Name: "duetime_hints_published_total", Help: "Hints that Kafka acknowledged.",
		}),
		passedOver: f.NewCounter(prometheus.CounterOpts{
			Name: "duetime_hints_passed_over_total", Help: "Due entries taken out of the index unpublished, because Kafka kept refusing them or they could not be read.",
		}),
		fenced: f.NewCounter(prometheus.CounterOpts{
			Name: "duetime_fenced_total", Help: "Claims refused because a newer epoch stands in the shard.",
		}),
		publishing: f.NewHistogram(prometheus.HistogramOpts{
			Name: "duetime_publish_duration_seconds", Help: "Duration of one call that hands hints to Kafka and waits for all in-sync replicas.",
			Buckets: publishBuckets,
		}),
		lag: f.NewHistogram(prometheus.HistogramOpts{
			Name: "duetime_dispatch_lag_seconds", Help: "From a task's time to Kafka's acknowledgement of its hint; 0 for hints sent ahead of it.",
			Buckets: lagBuckets,
		}),
	}
}
