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
	untold        prometheus.Counter
}

func newMetrics(r prometheus.Registerer) metrics {
	return metrics{
		puts: byResult(r, "duetime_index_puts_total",
			"Tasks put into the index after their commit: ok, failed, or skipped while the index is away.",
			resultOK, resultFailed, resultSkipped),
		compensations: byResult(r, "duetime_compensations_total",
			"Task ids handed to the daemon because their put did not succeed: ok, failed, or dropped.",
			resultOK, resultFailed, resultDropped),
		untold: registered(r, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "duetime_history_dropped_total",
			Help: "Lines of the history that were dropped: too many waited, or the database refused them.",
		})),
	}
}

// byResult makes a counter by result, or finds the one of another client in this process.
func byResult(r prometheus.Registerer, name, help string, results ...string) *prometheus.CounterVec {
	v := registered(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"result"}))
	for _, result := range results {
		v.WithLabelValues(result)
	}
	return v
}

// registered registers a collector, or gives the one of another client in this process.
func registered[C prometheus.Collector](r prometheus.Registerer, c C) C {
	if r == nil {
		return c
	}
	if err := r.Register(c); err != nil {
		var there prometheus.AlreadyRegisteredError
		if !errors.As(err, &there) {
			panic(err) // two metrics of one name: a programmer's error at start
		}
		return there.ExistingCollector.(C) //nolint:forcetypeassert // same description
	}
	return c
}

func count(v *prometheus.CounterVec, result string, n int) {
	v.WithLabelValues(result).Add(float64(n))
}
