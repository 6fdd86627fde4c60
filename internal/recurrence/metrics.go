package recurrence

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/metric"
)

// Metrics count ticks, by the kind of their tasks.
type Metrics struct{ ticks *prometheus.CounterVec }

// The names of the counter. Workers have another one than clients and the daemon: in one process their labels may differ.
const (
	TicksTotal       = "duetime_recurrence_ticks_total"
	WorkerTicksTotal = "duetime_worker_recurrence_ticks_total"
)

// NewMetrics registers the counter under one of its names; a nil reg registers nothing.
func NewMetrics(reg prometheus.Registerer, name string) *Metrics {
	return &Metrics{metric.Shared(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: name,
		Help: "Ticks of recurrences: made, caught_up (made after their moment, as after an outage), or skipped by the policy.",
	}, []string{"kind", "outcome"}))}
}

// Count counts the ticks of a transaction that has committed.
func (m *Metrics) Count(ticks []Tick) {
	for _, t := range ticks {
		m.ticks.WithLabelValues(t.Kind, t.Outcome).Add(float64(t.N))
	}
}
