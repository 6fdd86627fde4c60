package dispatch

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// measured returns the samples of one metric by its first label, or by "" without labels.
func measured(t *testing.T, from prometheus.Gatherer, name string) map[string]*dto.Metric {
	t.Helper()
	families, err := from.Gather()
	pipelinetest.Must(t, err)
	found := map[string]*dto.Metric{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			label := ""
			if len(m.GetLabel()) > 0 {
				label = m.GetLabel()[0].GetValue()
			}
			found[label] = m
		}
	}
	return found
}

func measuredWorld(t *testing.T) (*world, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	return newWorld(t, pipelinetest.Redis(t).Addr(), Config{Metrics: registry}), registry
}

// A gauge that is set by successful passes would not grow while passes hang.
func TestOldestDueAgeGrowsWhileNothingMoves(t *testing.T) {
	t.Parallel()
	w, registry := measuredWorld(t)
	s := w.shard(0, 1, nil)
	s.head = w.metrics.heads.reset(2)[0]
	want := func(what string, seconds float64) {
		t.Helper()
		got := measured(t, registry, "duetime_oldest_due_age_seconds")
		if len(got) != 1 || got["0"].GetGauge().GetValue() != seconds {
			t.Errorf("%s: %v, want shard 0 alone at %v s", what, got, seconds)
		}
	}
	if got := measured(t, registry, "duetime_oldest_due_age_seconds"); len(got) != 0 {
		t.Errorf("before the first claim nothing is known, but it shows %v", got)
	}
	w.put(t, "default", -1000)
	w.stream.refuse(func(protocol.Entry) error { return errRefused })
	if _, err := s.pass(t.Context()); err == nil {
		t.Fatal("a pass that publishes nothing succeeded")
	}
	want("refused", 1)
	*w.now = at(7000)
	want("still refused", 8)
	w.stream.refuse(nil)
	pass(t, s)
	want("published", 0)
	w.put(t, "default", 8000)
	pass(t, s)
	want("coming", 0)
	*w.now = at(10_000) // no claim was answered since
	want("unclaimed", 2)
	w.metrics.heads.reset(0)
	if got := measured(t, registry, "duetime_oldest_due_age_seconds"); len(got) != 0 {
		t.Errorf("who doesn't lead shows %v", got)
	}
}

func TestDispatchLagAndPublishDuration(t *testing.T) {
	t.Parallel()
	w, registry := measuredWorld(t)
	w.cfg.Lead = time.Second
	w.put(t, "default", -3000)
	w.put(t, "default", 500) // ahead of its time
	pass(t, w.shard(0, 1, nil))
	lag := measured(t, registry, "duetime_dispatch_lag_seconds")[""].GetHistogram()
	if lag.GetSampleCount() != 2 || lag.GetSampleSum() != 3 || lag.GetBucket()[0].GetCumulativeCount() != 1 {
		t.Errorf("lag is %v, want 0 s and 3 s", lag)
	}
	if n := measured(t, registry, "duetime_publish_duration_seconds")[""].GetHistogram().GetSampleCount(); n != 1 {
		t.Errorf("%d publish calls measured, want 1", n)
	}
}
