package indexwriter

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/metric"
)

// The label values of the counters.
const (
	resultOK      = "ok"
	resultFailed  = "failed"  // refused by the server, or no answer in time
	resultSkipped = "skipped" // no put was tried, because the index is away
	resultDropped = "dropped" // the queue was full, or closed
)

// metrics count tasks, not calls.
type metrics struct {
	puts          *prometheus.CounterVec
	compensations *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) metrics {
	return metrics{
		puts: byResult(r, "duetime_index_puts_total",
			"Tasks put into the index after their commit: ok, failed, or skipped while the index is away.",
			resultOK, resultFailed, resultSkipped),
		compensations: byResult(r, "duetime_compensations_total",
			"Task ids handed to the daemon because their put did not succeed: ok, failed, or dropped.",
			resultOK, resultFailed, resultDropped),
	}
}

// byResult makes a counter by result, or returns that counter of another writer in this process.
func byResult(r prometheus.Registerer, name, help string, results ...string) *prometheus.CounterVec {
	v := metric.Shared(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"result"}))
	for _, result := range results {
		v.WithLabelValues(result)
	}
	return v
}

func count(v *prometheus.CounterVec, result string, n int) {
	v.WithLabelValues(result).Add(float64(n))
}
