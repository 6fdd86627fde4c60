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
	ours           = "duetime_"
)

// In returns a registerer whose metrics bear the deployment's namespace as a label: one Prometheus may scrape several
// deployments, and one program may have clients of several. A nil reg stays nil.
func In(namespace string, reg prometheus.Registerer) prometheus.Registerer {
	if reg == nil {
		return nil
	}
	return prometheus.WrapRegistererWith(prometheus.Labels{namespaceLabel: namespace}, reg)
}

// GatherIn gathers what from has, and adds the namespace to metrics of ours that bear none: those of a process itself are
// registered before it knows its configuration. It changes nothing while the namespace is empty.
func GatherIn(namespace string, from prometheus.Gatherer) prometheus.Gatherer {
	if namespace == "" {
		return from
	}
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := from.Gather()
		for _, f := range families {
			if strings.HasPrefix(f.GetName(), ours) {
				for _, m := range f.GetMetric() {
					label(m, namespace)
				}
			}
		}
		return families, err
	})
}

// label adds the namespace in its place: labels are sorted by name.
func label(m *dto.Metric, namespace string) {
	at, has := slices.BinarySearchFunc(m.Label, namespaceLabel, func(l *dto.LabelPair, name string) int {
		return cmp.Compare(l.GetName(), name)
	})
	if has {
		return
	}
	name := namespaceLabel
	// A new slice: a metric's own one may be shared with the collector.
	m.Label = slices.Concat(m.Label[:at], []*dto.LabelPair{{Name: &name, Value: &namespace}}, m.Label[at:])
}
