package schedule

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Results that the counters tell apart.
const (
	resultOK      = "ok"
	resultFailed  = "failed"  // refused by the other side, or no answer in time
	resultSkipped = "skipped" // not tried, because the index is away
	resultDropped = "dropped" // the queue was full, or closed
)

// metrics count tasks, not calls.
type metrics struct {
	puts          *prometheus.CounterVec
	compensations *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) metrics {
	return metrics{
		puts: registered(r, "duetime_index_puts_total",
			"Tasks put into the index after their commit: ok, failed, or skipped while the index is away.",
			resultOK, resultFailed, resultSkipped),
		compensations: registered(r, "duetime_compensations_total",
			"Task ids handed to the daemon because their put did not succeed: ok, failed, or dropped.",
			resultOK, resultFailed, resultDropped),
	}
}

// registered makes a counter by result, or finds the one of another client in this process.
func registered(r prometheus.Registerer, name, help string, results ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"result"})
	if r != nil {
		if err := r.Register(v); err != nil {
			var there prometheus.AlreadyRegisteredError
			if !errors.As(err, &there) {
				panic(err) // two metrics of one name: a programmer's error at start
			}
			v = there.ExistingCollector.(*prometheus.CounterVec) //nolint:forcetypeassert // same description
		}
	}
	for _, result := range results {
		v.WithLabelValues(result)
	}
	return v
}

func count(v *prometheus.CounterVec, result string, n int) {
	v.WithLabelValues(result).Add(float64(n))
}
