package metric_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/metric"
)

func counter(name string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: "Counts."}, []string{"kind", "queue"})
}

// shown returns each sample's labels by name. A metric with several samples has their labels one after the other.
func shown(t *testing.T, from prometheus.Gatherer) map[string][]string {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				all[f.GetName()] = append(all[f.GetName()], l.GetName()+"="+l.GetValue())
			}
		}
	}
	return all
}

func TestMetricsBearTheirNamespace(t *testing.T) {
	t.Parallel()
	r := prometheus.NewPedanticRegistry()
	own, others := counter("duetime_own_total"), counter("go_own_total")
	r.MustRegister(own, others)
	clients := map[string]*prometheus.CounterVec{}
	for _, ns := range []string{"shop", "game", "game"} { // two clients of one deployment count together
		clients[ns] = metric.Shared(metric.In(ns, r), counter("duetime_client_total"))
		clients[ns].WithLabelValues("k", "q").Inc()
	}
	own.WithLabelValues("k", "q").Inc()
	others.WithLabelValues("k", "q").Inc()
	want := map[string][]string{
		"duetime_own_total":    {"kind=k", "namespace=shop", "queue=q"},
		"duetime_client_total": {"kind=k", "namespace=game", "queue=q", "kind=k", "namespace=shop", "queue=q"},
		"go_own_total":         {"kind=k", "queue=q"},
	}
	for range 2 { // a second gathering adds nothing
		if d := cmp.Diff(want, shown(t, metric.GatherIn("shop", r))); d != "" {
			t.Errorf("shown (-want +got):\n%s", d)
		}
	}
	delete(want, "duetime_own_total")
	got := shown(t, metric.GatherIn("", r))
	if d := cmp.Diff([]string{"kind=k", "queue=q"}, got["duetime_own_total"]); d != "" {
		t.Errorf("without a namespace (-want +got):\n%s", d)
	}
	if metric.In("shop", nil) != nil {
		t.Error("no registerer became one")
	}
}
