package prometheus_test

import (
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// TestMetricsOfQueriesExist wants each metric that a rule or the dashboard asks for to be one that our processes show, with
// the labels that it is asked by.
func TestMetricsOfQueriesExist(t *testing.T) {
	t.Parallel()
	d := pipelinetest.SharedDeployment(t)
	d.Rules = append(d.Rules, "DUETIME_DAEMON__WITNESS=true")
	d.Migrate(t) // the topic of its queue
	var apps []pipelinetest.App
	for _, name := range []string{"event", "daemon", "worker", "game"} {
		apps = append(apps, d.Ready(t, name))
	}
	rules, recorded := ruleQueries(t)
	var missing []string
	pipelinetest.Await(t, "every metric that is asked for", func() bool {
		labels := map[string][]string{}
		for _, app := range apps {
			for _, f := range app.Scrape(t) {
				note(labels, f)
			}
		}
		missing = unknown(t, append(rules, dashboardQueries(t)...), labels, recorded)
		if len(missing) > 0 {
			t.Logf("not shown yet: %v", missing)
		}
		return len(missing) == 0
	})
}

// note adds the names that the text form has for a metric, with their labels.
func note(labels map[string][]string, f *dto.MetricFamily) {
	for _, m := range f.GetMetric() {
		samples(f, m, func(name string, extra []string, _ float64) {
			for i := 0; i < len(extra); i += 2 {
				labels[name] = append(labels[name], extra[i])
			}
			for _, l := range m.GetLabel() {
				labels[name] = append(labels[name], l.GetName())
			}
			labels[name] = append(labels[name], "job", "instance") // Prometheus's own
		})
	}
}

// rare are metrics without a sample before the first event of their kind, or without an endpoint: their labels stand in the
// code alone.
var rare = map[string][]string{
	"up":                          {"job", "instance"}, // Prometheus's own
	"duetime_index_drift_total":   {"kind", "direction", "namespace"},
	"duetime_index_repairs_total": {"reason", "namespace"},
	"duetime_hints_let_go_total":  {"reason", "namespace"},
	"duetime_tasks_found_total":   {"queue", "cause", "namespace"},

	"duetime_pushes_total":                 {"endpoint", "outcome", "namespace"},
	"duetime_push_breaker_open":            {"endpoint", "namespace"},
	"duetime_push_duration_seconds_bucket": {"endpoint", "le", "namespace"},
}

// others are the metrics of queries that are not duetime's own.
var others = map[string]bool{"up": true, "process_resident_memory_bytes": true, "go_gc_gomemlimit_bytes": true}

// unknown returns what queries ask for and nobody shows.
func unknown(t *testing.T, queries []query, labels map[string][]string, recorded map[string]bool) []string {
	t.Helper()
	var missing []string
	for _, q := range queries {
		for _, v := range selectors(t, q) {
			known, shown := labels[v.Name]
			if rarely, ok := rare[v.Name]; ok {
				known, shown = rarely, true
			}
			if recorded[v.Name] {
				continue
			}
			if !shown || !strings.HasPrefix(v.Name, "duetime_") && !others[v.Name] {
				missing = append(missing, q.where+" asks for "+v.Name)
				continue
			}
			for _, m := range v.LabelMatchers {
				if m.Name != "__name__" && !slices.Contains(known, m.Name) {
					missing = append(missing, q.where+" asks for "+v.Name+" by "+m.Name)
				}
			}
		}
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}
