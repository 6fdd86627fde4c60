package deliver

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/metric"
)

// waiting is the outcome of a task that was not sent, because the breaker is open.
const waiting = "waiting"

// outcomes are all that can come of a task.
var outcomes = []string{"done", "failed", "refused", "gone", "put_off", waiting, "stopped"}

// metrics are labelled by the endpoint's host and port: its path may hold a token.
type metrics struct {
	pushes   *prometheus.CounterVec
	duration *prometheus.HistogramVec
	open     *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	return &metrics{
		pushes: metric.Shared(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "duetime_pushes_total", Help: "Tasks that were to be sent to an endpoint, by what came of it.",
		}, []string{"endpoint", "outcome"})),
		duration: metric.Shared(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "duetime_push_duration_seconds", Help: "One request to an endpoint, up to the header of its answer.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
		}, []string{"endpoint"})),
		open: metric.Shared(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "duetime_push_breaker_open", Help: "1 while tasks of one of the endpoint's URLs wait because it is away.",
		}, []string{"endpoint"})),
	}
}

// show has all counters of an endpoint begin with 0: alerts look for growth, and a counter that begins with 1 has not grown.
func (m *metrics) show(host string) {
	m.open.WithLabelValues(host)
	for _, outcome := range outcomes {
		m.pushes.WithLabelValues(host, outcome)
	}
}

func (m *metrics) count(e *endpoint, outcome string) {
	m.pushes.WithLabelValues(e.url.Host, outcome).Inc()
}
