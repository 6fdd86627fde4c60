package reconcile

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
)

// drift returns duetime_index_drift_total by kind and direction.
func drift(t *testing.T, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	found := map[string]float64{}
	for _, m := range worldtest.Samples(t, from, "duetime_index_drift_total") {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		found[labels["kind"]+" "+labels["direction"]] = m.GetCounter().GetValue()
	}
	return found
}

func TestDriftIsCountedByKindAndDirection(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	w := newWorld(t, Config{Metrics: registry})
	rows := w.insert(t, pending("ann", time.Hour), pending("bob", time.Hour), pending("cid", time.Hour))
	elsewhere := w.moved(t, rows[0], 2*time.Hour) // a version that never committed
	w.put(t, elsewhere, rows[1], pending("dan", time.Hour))
	pipelinetest.Must(t, w.raw.ZAdd(t.Context(), w.dueKey(0), redis.Z{Score: 7, Member: "junk"}).Err())
	w.run(t, w.auditRows().pass)
	w.run(t, w.auditIndex().pass)
	w.wantTruth(t)
	want := map[string]float64{
		"pet.meal_finished missing": 1, "pet.meal_finished moved": 1, "pet.meal_finished extra": 1, "unreadable extra": 1,
	}
	if d := diff.Diff(want, drift(t, registry)); d != "" {
		t.Errorf("drift (-want +got):\n%s", d)
	}
}

// Missing entries of an index that lost its memory are no drift.
func TestRebuildIsNoDrift(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	w := newWorld(t, Config{Metrics: registry})
	w.insert(t, pending("ann", time.Hour), pending("bob", sec(-60)))
	w.run(t, new(rebuild).pass)
	w.wantTruth(t)
	if got := drift(t, registry); len(got) != 0 {
		t.Errorf("drift is %v, want none", got)
	}
}

// TestKindsOfDriftAreBounded makes drift of more kinds than have labels.
func TestKindsOfDriftAreBounded(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	m := newMetrics(registry)
	for i := range 3 * maxKinds {
		m.countDrift([]protocol.Repair{{Task: task.Task{Kind: "k" + strconv.Itoa(i%(2*maxKinds))}, Seen: nowhere}})
	}
	got := drift(t, registry)
	if len(got) != maxKinds+1 || got["k0 missing"] != 2 || got["other missing"] != maxKinds {
		t.Errorf("%d kinds, k0 %v, other %v; want %d, 2 and %d", len(got), got["k0 missing"], got["other missing"], maxKinds+1, maxKinds)
	}
}

// A pass that no alert watches may fail for months. The runbook says which are watched.
func TestEachPassIsWatched(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile("../../deploy/prometheus/rules.yaml")
	pipelinetest.Must(t, err)
	runbook, err := os.ReadFile("../../docs/runbooks/sweeps-stopped.md")
	pipelinetest.Must(t, err)
	var watched, passes []string
	for _, loops := range regexp.MustCompile(`last_success_timestamp_seconds\{loop=~"([^"]*)"`).FindAllSubmatch(rules, -1) {
		watched = append(watched, strings.Split(string(loops[1]), "|")...)
	}
	for _, p := range newWorld(t, Config{}).passes() {
		passes = append(passes, p.name)
		if !strings.Contains(string(runbook), "`"+p.name+"`") {
			t.Errorf("the runbook does not name %s", p.name)
		}
		if _, err := os.Stat(strings.ReplaceAll(p.name, " ", "_") + ".go"); err != nil {
			t.Errorf("no file has the name of the pass %s: %v", p.name, err)
		}
	}
	slices.Sort(watched)
	slices.Sort(passes)
	if d := diff.Diff(passes, watched); d != "" {
		t.Errorf("the passes against the loops that are watched (-want +got):\n%s", d)
	}
}
