package bench_test

import (
	"fmt"
	"time"

	"github.com/duetime/duetime/bench/protocol"
	"github.com/duetime/duetime/bench/report"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

const (
	indexHorizon = 10 * time.Minute
	edgeMoves    = 10_000
)

// horizon measures an index that holds only what is due within indexHorizon, which the part's options have set.
func horizon(w *world, f *report.Figures) {
	w.work(true)
	w.await(restLimit, "the horizon to be set", func() bool {
		var set bool
		pipelinetest.Must(w, w.db.QueryRowContext(w.Context(), "SELECT horizon_ms > 0 FROM duetime_layout").Scan(&set))
		return set
	})
	n := w.bench.count(5_000_000)
	w.indexAnew(func() { w.plantSpread(planted{n: n, owners: max(n/10, 1), from: time.Minute, spread: month}) })
	w.quieten()
	entries, due := w.indexed(0), w.dueWithin(indexHorizon)
	f.Text("entries in Redis, and rows due within 10 min", fmt.Sprintf("%d and %d of %d pending", entries, due, n))
	f.Add("Redis, all of it", w.memory()/(1<<20), "MB")

	began := time.Now()
	pipelinetest.Must(w, w.redis.FlushAll(w.Context()).Err())
	w.awaitWhole()
	f.Add("rebuild after FLUSHALL", time.Since(began).Seconds(), "s")

	there, back := w.moveAcross()
	f.Text("moves across the horizon, inwards and outwards", fmt.Sprintf("%d and %d", there, back))
	w.addVerify(f)
	entries, due = w.indexed(0), w.dueWithin(indexHorizon)
	f.Text("entries in Redis, and rows due within 10 min, after the moves", fmt.Sprintf("%d and %d", entries, due))
}

// dueWithin counts pending rows that are due soon.
func (w *world) dueWithin(d time.Duration) (n int64) {
	w.Helper()
	pipelinetest.Must(w, w.db.QueryRowContext(w.Context(), "SELECT COUNT(*) FROM duetime_tasks WHERE state = 0 AND run_at < "+rawNow+" + ?",
		d.Milliseconds()).Scan(&n))
	return n
}

// moveAcross moves tasks to within the horizon and out of it again, until so many have been moved each way.
func (w *world) moveAcross() (there, back int64) {
	w.Helper()
	n := w.bench.count(2000)
	tasks := pending{w.preload(n, 10), n, 10}
	move := func(due time.Time) int64 {
		return w.producer.must(w, protocol.Request{
			Op: "move", First: tasks.first, Count: tasks.n, PerOwner: tasks.perOwner, Due: due.UnixMicro(), Step: farStep.Microseconds(),
			Callers: workers, Seconds: w.bench.seconds(time.Second).Seconds(),
		}).Jobs
	}
	for want := w.bench.count(edgeMoves); there < want || back < want; {
		there += move(time.Now().Add(indexHorizon / 2))
		back += move(time.Now().Add(farOff))
	}
	return there, back
}
