package worldtest

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// Samples returns the samples of a metric that have the labels, given as names and values; an empty value is any.
func Samples(t testing.TB, from prometheus.Gatherer, name string, labels ...string) (found []*dto.Metric) {
	t.Helper()
	families, err := from.Gather()
	pipelinetest.Must(t, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if has(m, labels) {
				found = append(found, m)
			}
		}
	}
	return found
}

func has(m *dto.Metric, labels []string) bool {
	of := map[string]string{}
	for _, l := range m.GetLabel() {
		of[l.GetName()] = l.GetValue()
	}
	for i := 0; i < len(labels); i += 2 {
		if value, there := of[labels[i]]; !there || labels[i+1] != "" && labels[i+1] != value {
			return false
		}
	}
	return true
}

// Sum adds up counters and gauges as Samples finds them; it is 0 if there are none.
func Sum(t testing.TB, from prometheus.Gatherer, name string, labels ...string) (sum float64) {
	t.Helper()
	for _, m := range Samples(t, from, name, labels...) {
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	return sum
}
