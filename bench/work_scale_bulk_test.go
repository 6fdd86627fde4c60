package bench_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/duetime/duetime/bench/report"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

const bulkLimit = 40 * time.Minute

// bulkShift measures a shift of a fifth of the pending tasks: on an idle deployment, and while tasks run at the pace.
func bulkShift(w *world, f *report.Figures) {
	w.work(true)
	n := w.bench.count(1_000_000)
	from := time.Now().Add(farOff) // what runs at the pace is due before
	w.indexAnew(func() { w.plantSpread(planted{n: n, owners: max(n/10, 1), from: farOff, spread: month}) })
	w.quieten()
	shift := w.shiftBulk(from, from.Add(month/5))
	shift.add(f, fmt.Sprintf("idle, of %d pending", n))

	before := w.bench.seconds(beforeChange)
	j := w.soon(int64((before+w.expectedChange(n/5, slowestShift))/pace), pace)
	time.Sleep(time.Until(j.due.Add(before)))
	shift = w.shiftBulk(from.Add(bulkBy), from.Add(month/5+bulkBy))
	if shift.ended.After(j.last()) {
		w.Errorf("the load ended %v before the operation", shift.ended.Sub(j.last()))
	}
	if _, ok := w.finish(j, 100*time.Millisecond); !ok {
		w.Errorf("not all of %d tasks were run", j.n)
	}
	shift.add(f, "500 tasks a second")
	w.addLags(f, j, "the shift", shift.began, shift.ended)
	w.addVerify(f)
}

const (
	bulkBy       = 2 * time.Hour
	slowestShift = 250 // rows a second, beside the load
)

// bulkRun is an operation as it was seen from outside.
type bulkRun struct {
	began, ended time.Time // without the preview's count
	counted      time.Duration
	matched      int64
	changed      int64
}

func (b bulkRun) add(f *report.Figures, what string) {
	took := b.ended.Sub(b.began)
	f.Text("bulk shift, "+what, fmt.Sprintf("%d rows in %.1f s, %.0f a second; %.1f s to count them before",
		b.changed, took.Seconds(), float64(b.changed)/took.Seconds(), b.counted.Seconds()))
}

// shiftBulk shifts the tasks that are due in a span, by the tool, and follows the operation until it is done.
func (w *world) shiftBulk(from, to time.Time) (b bulkRun) {
	w.Helper()
	asked := time.Now()
	args := []string{
		"bulk", "shift", "--by", bulkBy.String(), "--yes", "--json",
		"--due-after", from.Format(time.RFC3339Nano), "--due-before", to.Format(time.RFC3339Nano),
	}
	code, out := w.deployment.Duetime(w, args...)
	if code != 0 {
		w.Fatalf("%v: exit code %d, said %s", args, code, out)
	}
	var made struct {
		Matched     int64
		CreatedAtMs int64 `json:"created_at_ms"`
	}
	pipelinetest.Must(w, json.Unmarshal([]byte(out), &made))
	b.began, b.matched = time.UnixMilli(made.CreatedAtMs), made.Matched
	b.counted = b.began.Sub(asked)
	w.await(bulkLimit, "the operation to be done", func() bool {
		var state int
		var finished int64
		pipelinetest.Must(w, w.db.QueryRowContext(w.Context(),
			"SELECT state, changed, finished_at FROM duetime_operations ORDER BY id DESC LIMIT 1").Scan(&state, &b.changed, &finished))
		b.ended = time.UnixMilli(finished)
		return state == 3
	})
	if b.changed != b.matched {
		w.Errorf("%d rows were shifted, %d had been counted", b.changed, b.matched)
	}
	return b
}
