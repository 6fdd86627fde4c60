package reconcile

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	repairs *prometheus.CounterVec
	purged  prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	return &metrics{
		repairs: f.NewCounterVec(prometheus.CounterOpts{
			Name: "duetime_index_repairs_total", Help: "Index entries that reconcile put, moved or removed, by the pass that found them.",
		}, []string{"reason"}),
		purged: f.NewCounter(prometheus.CounterOpts{
			Name: "duetime_tasks_purged_total", Help: "Finished rows removed after their retention.",
		}),
	}
}
