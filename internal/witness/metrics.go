package witness

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/metric"
)

type metrics struct {
	calls   *prometheus.CounterVec
	faults  *prometheus.CounterVec
	verdict prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		calls: metric.Shared(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "duetime_witness_calls_total", Help: "Calls of the witness, by what they do and what was answered.",
		}, []string{"verb", "answer"})),
		faults: metric.Shared(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "duetime_witness_faults_total", Help: "Broken promises that the witness has seen.",
		}, []string{"fault"})),
		verdict: metric.Shared(reg, prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "duetime_witness_last_verdict_timestamp_seconds", Help: "When this process last gave a verdict on a play of the witness; 0: never.",
		})),
	}
	for _, f := range allFaults {
		m.faults.WithLabelValues(f)
	}
	return m
}
