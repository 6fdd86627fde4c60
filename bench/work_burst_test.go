package bench_test

import (
	"time"

	"github.com/duetime/duetime/bench/report"
)

// burst measures how long many jobs take that are due at one instant; around each of duetime's also what MySQL alone does
// of a worker's batches.
func burst(w *world) {
	n := w.bench.pick(50_000, 20_000)
	around, large := func(do func()) { do() }, func() {}
	if ours(w.system) {
		around, large = beside(w.bench.open(w.TB, parts, w.options), n)
	}
	w.work(true)
	w.repeat(func(run int) {
		var took time.Duration
		var samples []sample
		around(func() { took, samples = w.drain(n) })
		w.record(report.BurstEffect, took.Seconds())
		w.record(report.BurstEffectRate, float64(n)/took.Seconds())
		if run == 0 {
			w.curve(report.PlotBurst, points(samples))
		}
	})
	if w.bench.quick {
		return
	}
	if ours(w.system) {
		w.repeat(func(int) {
			four, one := amid(func() float64 { return w.drained(4 * n) }, func() float64 { return w.drained(n) })
			w.record(report.BurstLarge, float64(4*n)/four)
			w.record(report.BurstLargeRate, four)
			w.record(report.BurstAround, one)
			large()
		})
	}
	// What an empty handler costs is compared with BullMQ's; of the others one run has to do, for the hour's sake.
	once := !ours(w.system) && w.system.name != report.BullMQ
	if once && w.bench.round > 0 || w.system.spare && time.Now().After(w.bench.until) {
		return
	}
	w.work(false)
	w.repeat(func(run int) {
		if once && run > 0 {
			return
		}
		took, _ := w.drain(n)
		w.record(report.BurstEmpty, took.Seconds())
		w.record(report.BurstEmptyRate, float64(n)/took.Seconds())
	})
}

// drain runs n jobs that are due at one instant and tells how long after it the last effect had committed.
func (w *world) drain(n int64) (time.Duration, []sample) {
	w.Helper()
	return w.took(w.soon(n, 0))
}

// drained is how many of n jobs that are due at one instant were done a second.
func (w *world) drained(n int64) float64 {
	w.Helper()
	took, _ := w.drain(n)
	return float64(n) / took.Seconds()
}

// took waits for the jobs and tells how long after their due time the last effect had committed.
func (w *world) took(j jobs) (time.Duration, []sample) {
	w.Helper()
	samples, ok := w.finish(j, 20*time.Millisecond)
	if !ok {
		w.Fatalf("not all of %d jobs were run", j.n)
	}
	// A system that starts early may be done before; that is told by the early starts, not by a time below zero.
	return max(time.UnixMicro(w.seen(false).Last).Sub(j.due), time.Millisecond), samples
}

func points(samples []sample) []report.Point {
	all := make([]report.Point, 0, len(samples))
	for _, s := range samples {
		all = append(all, report.Point{X: s.after, Y: float64(s.done)})
	}
	return all
}
