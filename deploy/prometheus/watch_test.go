package prometheus_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// watch is Prometheus's own evaluation of our rules over some storage.
type watch struct {
	groups []*rules.Group
}

// newWatch evaluates on samples that are at most so old.
func newWatch(t *testing.T, on storage.Storage, lookback time.Duration) *watch {
	t.Helper()
	engine := promqltest.NewTestEngine(t, false, lookback, promqltest.DefaultMaxSamplesPerQuery*100)
	manager := rules.NewManager(&rules.ManagerOptions{
		NameValidationScheme: model.LegacyValidation, Context: t.Context(), Logger: slog.New(slog.DiscardHandler),
		QueryFunc: rules.EngineQueryFunc(engine, on), Appendable: on, Queryable: on,
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
	})
	groups, errs := manager.LoadGroups(30*time.Second, labels.EmptyLabels(), "", nil, false, rulesFile)
	for _, err := range errs {
		t.Fatal(err)
	}
	w := &watch{}
	for _, g := range groups {
		w.groups = append(w.groups, g)
	}
	// What is recorded comes before what asks for it, as in the file.
	slices.SortFunc(w.groups, func(a, b *rules.Group) int { return len(b.Name()) - len(a.Name()) })
	return w
}

// eval evaluates all rules as of a moment.
func (w *watch) eval(t *testing.T, at time.Time) {
	t.Helper()
	for _, g := range w.groups {
		g.Eval(t.Context(), at)
		for _, r := range g.Rules() {
			pipelinetest.Must(t, r.LastError())
		}
	}
}

// alerts returns the alerts whose query is true; those for longer than they wait are firing.
func (w *watch) alerts() (active, firing map[string]bool) {
	active, firing = map[string]bool{}, map[string]bool{}
	for _, g := range w.groups {
		for _, r := range g.AlertingRules() {
			for _, a := range r.ActiveAlerts() {
				active[r.Name()] = true
				if a.State == rules.StateFiring {
					firing[r.Name()] = true
				}
			}
		}
	}
	return active, firing
}
