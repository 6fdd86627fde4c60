package worker_test

import (
	"context"
	"slices"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/worker"
)

// histogram returns the one of the name, of any labels.
func (w *world) histogram(name string) *dto.Histogram {
	w.t.Helper()
	found := worldtest.Samples(w.t, w.reg, name)
	if len(found) == 0 {
		w.t.Fatalf("no metric %s", name)
	}
	return found[0].GetHistogram()
}

func TestLagAndSettleDuration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	wk := w.worker(mux, engine.Config{})
	w.pass(wk, w.due(meal, 7)...)
	lag := w.histogram("duetime_fire_lag_seconds")
	want(t, "lags", lag.GetSampleCount(), 7)
	for _, bound := range []float64{0.015, 1} { // of a healthy p99, and of the promise: alerts count what lies beyond
		want(t, "there is a bucket", slices.ContainsFunc(lag.GetBucket(), func(b *dto.Bucket) bool { return b.GetUpperBound() == bound }), true)
	}
	want(t, "transactions were measured", w.histogram("duetime_settle_duration_seconds").GetSampleCount() > 0, true)
}

// A process that only reads shows no gauge of a worker: it would stand at 0 for ever.
func TestReaderShowsNoGauges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	mux.OnEvent(func(context.Context, worker.Event) {})
	worker.Handle(mux, meal, effect)
	w.reads(mux, engine.Config{Metrics: w.reg})
	families, err := w.reg.Gather()
	pipelinetest.Must(t, err)
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
		if f.GetType() == dto.MetricType_GAUGE {
			t.Errorf("shows %s", f.GetName())
		}
	}
	for _, name := range []string{"duetime_hook_panics_total", "duetime_tasks_settled_total"} {
		want(t, "shows "+name, slices.Contains(names, name), true)
	}
}
