package bench_test

import (
	"fmt"
	"time"

	"github.com/duetime/duetime/bench/protocol"
	"github.com/duetime/duetime/bench/report"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

const (
	purgePace      = 500 * time.Microsecond // 2,000 a second
	purgeRetention = time.Minute
	// purgeInterval is the time between two passes of a daemon with that retention: a row is deleted at most so long after its
	// retention is over.
	purgeInterval = time.Minute
)

// purging measures whether purge keeps up with 2,000 finished tasks a second, and what it costs a burst amid them.
func purging(w *world, f *report.Figures) {
	w.work(true)
	kept := w.burstAmid(max(w.bench.seconds(time.Minute), 10*time.Second), func() {})
	f.Add("burst of 100,000 amid 2,000 tasks a second, nothing to purge", kept, "tasks/s")

	w.daemon.Stop(w)
	w.empty()
	w.deployment.Rules = append(w.deployment.Rules, fmt.Sprintf("DUETIME_DAEMON__RETENTION=%v", purgeRetention))
	w.daemon = w.ready("daemon")
	w.awaitWhole()
	var behind, longest float64
	var overdue, most int64
	look := func() {
		behind, overdue = w.daemon.Metric(w, "duetime_purge_behind_seconds "), w.unpurged()
		longest, most = max(longest, behind), max(most, overdue)
	}
	purged := w.burstAmid(max(w.bench.seconds(5*time.Minute), 2*(purgeRetention+purgeInterval)), look)
	f.Add("the same, while 2,000 rows a second are purged", purged, "tasks/s")
	f.Add("the second ÷ the first", purged/kept, "")
	deleted := w.daemon.Metric(w, "duetime_tasks_purged_total")
	look()
	f.Add("rows purged", deleted, "")
	f.Text("duetime_purge_behind_seconds, the highest and at the end", fmt.Sprintf("%.1f s and %.1f s", longest, behind))
	f.Text(fmt.Sprintf("finished rows older than %v, the most and at the end", purgeRetention+purgeInterval), fmt.Sprintf("%d and %d", most, overdue))
}

// unpurged counts the finished rows that a purge should have deleted by now.
func (w *world) unpurged() (n int64) {
	w.Helper()
	pipelinetest.Must(w, w.db.QueryRowContext(w.Context(), "SELECT COUNT(*) FROM duetime_tasks FORCE INDEX (duetime_tasks_updated) WHERE state <> 0 AND updated_at < "+
		rawNow+" - ?", (purgeRetention+purgeInterval).Milliseconds()).Scan(&n))
	return n
}

// burstAmid runs tasks at 2,000 a second for so long, with a burst of 100,000 in the middle, and returns the burst's rate up to the
// last handler's end. It calls each every second.
func (w *world) burstAmid(long time.Duration, each func()) float64 {
	w.Helper()
	burst := w.bench.count(100_000)
	j := w.soon(int64(long/purgePace), purgePace)
	due := j.due.Add(long / 2).Truncate(time.Second)
	first := w.take(burst)
	w.load(first, burst, due, 0, 1)
	if time.Now().After(due.Add(-time.Second)) {
		w.Fatal("making the burst took too long")
	}
	for time.Now().Before(j.last()) {
		each()
		time.Sleep(time.Second)
	}
	j.n += burst
	if _, ok := w.finish(j, 100*time.Millisecond); !ok {
		w.Errorf("not all of %d tasks were run", j.n)
	}
	last := time.Microsecond
	for _, m := range w.worker.must(w, protocol.Request{Op: "marks", First: first, Count: burst}).Marks {
		last = max(last, time.Duration(m.Done)*time.Microsecond)
	}
	return float64(burst) / last.Seconds()
}
