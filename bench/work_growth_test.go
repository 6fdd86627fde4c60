package bench_test

import (
	"time"

	"github.com/duetime/duetime/bench/report"
)

// levels are how many jobs are pending; the last is for duetime alone.
var levels = []struct {
	name    string
	pending int64
	x       float64
}{
	{"10k", 10_000, 1e4}, {"100k", 100_000, 1e5}, {"1M", 1_000_000, 1e6}, {"10M", 10_000_000, 1e7},
}

// longestLoad is what peers may take to make the jobs of a level.
const longestLoad = 10 * time.Second

// besideFrom is how much is pending where duetime's bursts are compared with those at the lowest level: these are repeated
// around each, by a second deployment that has stayed there, because a machine is not the same a few minutes later.
const besideFrom = 1_000_000

// growth measures bursts, lag and memory while more and more is pending.
func growth(w *world) {
	w.work(true)
	var small *world
	if ours(w.system) {
		small = w.bench.open(w.TB, w.system, w.options)
		small.work(true)
		small.stand(w.bench.count(levels[0].pending))
	}
	empty := w.memory()
	var pending int64
	var rates, lags []report.Point
	defer func() { // also when a level fails
		w.curve(report.PlotGrowthRate, rates)
		w.curve(report.PlotGrowthLag, lags)
	}()
	for _, level := range levels {
		more := w.bench.count(level.pending) - pending
		expected := time.Duration(float64(more) / w.rate * float64(time.Second))
		if !ours(w.system) && (level.pending > 1_000_000 || expected > longestLoad) {
			if level.pending <= 1_000_000 {
				w.bench.results.Note("%s with %s pending is left out: making them would take %v.", w.system.title, level.name, expected.Round(time.Second))
			}
			break
		}
		w.stand(more)
		pending += more
		row := report.At(w.system.name, level.name)
		if !ours(w.system) { // made by its own calls
			w.bench.results.Add(row, report.GrowthLoad, w.rate)
		}
		if w.redis != nil {
			w.bench.results.Add(row, report.GrowthBytes, (w.memory()-empty)/float64(pending))
		}
		if level.pending < besideFrom {
			w.grown(row, nil)
		} else {
			w.grown(row, small)
		}
		rates = append(rates, report.Point{X: level.x, Y: report.Median(w.bench.results.Runs(row, report.GrowthRate))})
		lags = append(lags, report.Point{X: level.x, Y: report.Median(w.bench.results.Runs(row, report.GrowthLag))})
	}
}

// grown measures at one level; around each burst also one of the small deployment, if there is one.
func (w *world) grown(row string, small *world) {
	w.Helper()
	together, apart := w.bench.count(50_000), w.bench.count(2500)
	if !ours(w.system) {
		together = w.bench.count(10_000)
	}
	if small != nil {
		small.warm() // it has long had nothing to do
	}
	for range w.often() {
		many := func() float64 { return w.drained(together) }
		if small == nil {
			w.bench.results.Add(row, report.GrowthRate, many())
		} else {
			rate, around := amid(many, func() float64 { return small.drained(together) })
			w.bench.results.Add(row, report.GrowthRate, rate)
			w.bench.results.Add(row, report.GrowthSmall, around)
		}
		l := w.lags(apart)
		if l.lost > 0 {
			w.Errorf("%d of %d jobs were not run", l.lost, apart)
		}
		w.bench.results.Add(row, report.GrowthLag, report.Percentile(l.starts, 99))
	}
}
