package bench_test

import (
	"slices"
	"time"

	"github.com/duetime/duetime/bench/protocol"
	"github.com/duetime/duetime/bench/report"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

const pace = 2 * time.Millisecond // 500 a second

// lag measures how late jobs begin that are due one after the other, while many more are pending for later.
func lag(w *world) {
	w.work(true)
	w.stand(w.bench.pick(100_000, 20_000))
	var all []float64
	w.repeat(func(int) {
		l := w.lags(w.bench.pick(10_000, 2_500))
		all = append(all, l.starts...)
		w.record(report.LagP50, report.Percentile(l.starts, 50))
		w.record(report.LagP99, report.Percentile(l.starts, 99))
		w.record(report.LagMax, report.Percentile(l.starts, 100))
		w.record(report.LagEffect, l.effect)
		w.record(report.LagEarly, float64(l.early))
		w.record(report.LagLost, float64(l.lost))
	})
	slices.Sort(all)
	w.curve(report.PlotLag, report.Distribution(all))
}

// lagged is how late some jobs were.
type lagged struct {
	starts      []float64 // ms from the due time to the handler's begin, sorted
	effect      float64   // ms from the due time to the commit, of 99 %
	early, lost int64
}

// lags runs n jobs at the pace.
func (w *world) lags(n int64) lagged {
	w.Helper()
	j := w.soon(n, pace)
	if _, ok := w.finish(j, 100*time.Millisecond); !ok {
		w.Logf("not all of %d jobs were run", n)
	}
	after := w.seen(true)
	l := lagged{lost: max(n-(after.Done-j.before.Done), 0)}
	var effects []float64
	for _, m := range w.worker.must(w, protocol.Request{Op: "marks", First: j.first, Count: n}).Marks {
		if m.ID < j.first || m.ID >= j.first+n {
			continue
		}
		l.starts = append(l.starts, float64(m.Start)/1000)
		effects = append(effects, float64(m.Done)/1000)
		if m.Start < 0 {
			l.early++
		}
	}
	slices.Sort(l.starts)
	slices.Sort(effects)
	l.effect = report.Percentile(effects, 99)
	if len(after.Lag) > 0 { // the system commits after the handler's end, and knows when
		l.effect = 1000 * bound(j.before.Lag, after.Lag, 99)
		w.bench.results.Note("duetime's effects are committed by its worker after the handler's end: their percentile is the upper " +
			"bound of the bucket of its own histogram, `duetime_fire_lag_seconds`, whose buckets are 9 %% wide.")
	}
	return l
}

// bound is the smallest one that holds p percent of what came into a histogram meanwhile.
func bound(before, after []protocol.Bucket, p float64) float64 {
	last := len(after) - 1
	total := grown(before, after, last)
	for i := range after {
		if float64(grown(before, after, i)) >= p/100*float64(total) {
			return after[i].Within
		}
	}
	return after[last].Within
}

func grown(before, after []protocol.Bucket, i int) uint64 {
	if i < len(before) {
		return after[i].Count - before[i].Count
	}
	return after[i].Count
}

// blocked measures jobs that stand behind one that is due later, in a queue of which only the head expires.
func blocked(w *world) {
	const behind = 12 * time.Second
	w.work(true)
	head := jobs{first: w.take(1), n: 1, due: time.Now().Add(behind), before: w.seen(false)}
	pipelinetest.Must(w, w.schedule(head.first, 1, head.due, 0, 1))
	n := w.bench.count(1000)
	l := w.lags(n)
	w.record(report.BlockedP50, report.Percentile(l.starts, 50))
	w.record(report.BlockedMax, report.Percentile(l.starts, 100))
}

// curve notes a line of a plot.
func (w *world) curve(plot string, points []report.Point) {
	w.bench.results.Curves = append(w.bench.results.Curves, report.Curve{Plot: plot, Row: w.system.name, Points: points})
}
