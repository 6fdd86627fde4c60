package bench_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/duetime/duetime/bench/protocol"
	"github.com/duetime/duetime/bench/report"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

const (
	readers   = 4 // callers at once
	readTurns = 5
)

// reads measures fresh reads while no worker runs: of owners with one task due, which takes effect in the read, and of owners with nothing
// due, in turns with the same read without SettleDue.
func reads(w *world, f *report.Figures) {
	w.running()
	w.effect = true // jobs have pets from the start
	n := w.bench.count(100_000)
	idle := pending{w.preload(n, 2), n, 2}
	w.exec("INSERT INTO bench_pets (id) SELECT seq FROM " + pipelinetest.Numbers(idle.first, idle.first+n-1))
	w.indexed(n)
	w.addDueReads(f, w.bench.count(50_000))

	var fresh, plain, ratios []float64
	ways := []func() float64{
		func() float64 { return w.readAll(idle, true, &fresh) },
		func() float64 { return w.readAll(idle, false, &plain) },
	}
	w.readAll(idle, true, new([]float64)) // opens the connections
	for turn := range readTurns {
		var means [2]float64
		for i := range ways {
			which := (i + turn) % 2
			means[which] = ways[which]()
		}
		ratios = append(ratios, means[0]/means[1])
	}
	slices.Sort(ratios)
	addTimes(f, "a fresh read with nothing due", fresh)
	addTimes(f, "the same read without SettleDue", plain)
	f.Text("fresh ÷ without, means in turns", fmt.Sprintf("%.2f (%.2f)", report.Percentile(ratios, 50), ratios))
}

// addDueReads reads owners with a task due each, none twice.
func (w *world) addDueReads(f *report.Figures, n int64) {
	w.Helper()
	due := pending{w.take(n), n, 1}
	w.load(due.first, n, time.Now(), 0, 1)
	var took []float64
	w.readAll(due, true, &took)
	if int64(len(took)) > n {
		w.Errorf("%d reads of %d owners: not each had a task due", len(took), n)
	}
	var effects int
	pipelinetest.Must(w, w.db.QueryRowContext(w.Context(), "SELECT COUNT(*) FROM bench_pets WHERE meals = 1").Scan(&effects))
	if effects != len(took) {
		w.Errorf("%d effects of %d reads", effects, len(took))
	}
	addTimes(f, "a fresh read with one task due, which takes effect in it", took)
}

// readAll reads for a while, adds how long each read took, in ms, and returns their mean.
func (w *world) readAll(of pending, fresh bool, took *[]float64) (mean float64) {
	w.Helper()
	r := w.producer.must(w, protocol.Request{
		Op: "read", First: of.first, Count: of.n, PerOwner: of.perOwner, Callers: readers, Fresh: fresh, Seconds: w.bench.seconds(4 * time.Second).Seconds(),
	})
	sum := 0.0
	for _, micros := range r.Took {
		sum += float64(micros) / 1000
		*took = append(*took, float64(micros)/1000)
	}
	return sum / float64(max(len(r.Took), 1))
}

func addTimes(f *report.Figures, what string, took []float64) {
	slices.Sort(took)
	f.Text(what+fmt.Sprintf(", %d callers, p50 and p99 (ms)", readers),
		fmt.Sprintf("%.2f and %.2f of %d", report.Percentile(took, 50), report.Percentile(took, 99), len(took)))
}
