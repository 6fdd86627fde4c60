package metric

import (
	"cmp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

const (
	namespaceLabel = "namespace"
	metricPrefix   = "duetime_"
)

// In returns a registerer that gives every metric the deployment's namespace as a label: one Prometheus may scrape
// several deployments, and one program may have clients of several. A nil reg stays nil.
func In(namespace string, reg prometheus.Registerer) prometheus.Registerer {
	if reg == nil {
		return nil
	}
	return prometheus.WrapRegistererWith(prometheus.Labels{namespaceLabel: namespace}, reg)
}

// GatherIn gathers from's metrics and adds the namespace to duetime's metrics that have none: a process registers its own
// metrics before it has read its configuration. An empty namespace changes nothing.
func GatherIn(namespace string, from prometheus.Gatherer) prometheus.Gatherer {
	if namespace == "" {
		return from
	}
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := from.Gather()
		for _, f := range families {
			if strings.HasPrefix(f.GetName(), metricPrefix) {
				for _, m := range f.GetMetric() {
					label(m, namespace)
				}
			}
		}
		return families, err
	})
}

// label inserts the namespace where it belongs: labels are sorted by name.
func label(m *dto.Metric, namespace string) {
	at, has := slices.BinarySearchFunc(m.Label, namespaceLabel, func(l *dto.LabelPair, name string) int {
		return cmp.Compare(l.GetName(), name)
	})
	if has {
		return
	}
	name := namespaceLabel
	// A new slice: the collector may share the metric's own slice.
	m.Label = slices.Concat(m.Label[:at], []*dto.LabelPair{{Name: &name, Value: &namespace}}, m.Label[at:])
}
