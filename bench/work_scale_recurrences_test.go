package bench_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/duetime/duetime/bench/report"
)

// recurring measures a burst of ticks, each of which makes its next one, beside a burst of as many plain tasks.
func recurring(w *world, f *report.Figures) {
	besidePlain(w, f, "ticks", "ticks at one instant, each of which makes its next one", w.ticked)
}

// besidePlain measures bursts of other tasks in turns with bursts of as many plain ones; drained is how many are done a second.
func besidePlain(w *world, f *report.Figures, short, long string, drained func(n int64) float64) {
	w.Helper()
	w.work(true)
	n := w.bench.count(50_000)
	var plain, others, ratios []float64
	for range w.bench.runs {
		plain = append(plain, w.drained(n))
		others = append(others, drained(n))
		ratios = append(ratios, others[len(others)-1]/plain[len(plain)-1])
	}
	for _, rates := range [][]float64{plain, others, ratios} {
		slices.Sort(rates)
	}
	f.Add(fmt.Sprintf("%d plain tasks due at one instant", n), report.Percentile(plain, 50), "/s")
	f.Add(fmt.Sprintf("%d %s", n, long), report.Percentile(others, 50), "/s")
	f.Text(short+" ÷ plain, in turns", fmt.Sprintf("%.2f", ratios))
}

// ticked is drained for tasks that recurrences have made.
func (w *world) ticked(n int64) float64 {
	w.Helper()
	j := jobs{first: w.take(n), n: n, before: w.seen(true)}
	j.due = time.Now().Add(30*time.Second + time.Duration(2*float64(n)/w.rate*float64(time.Second))).Truncate(time.Second)
	w.load(j.first, n, j.due, 0, 1)
	w.exec(fmt.Sprintf(`INSERT INTO duetime_recurrences (id, owner, name, timetable, kind, queue, max_attempts, payload, passed, newest,
		due_at, made, created_at, updated_at)
		SELECT id, owner, HEX(id), 'every 8760h0m0s from 2026-06-01T00:00:00Z', kind, queue, max_attempts, payload, due_at, id,
		due_at, 1, created_at, updated_at FROM duetime_tasks WHERE state = 0 AND due_at = %d`, j.due.UnixMilli()))
	w.exec(fmt.Sprintf(`UPDATE duetime_tasks SET dedup_key = CONCAT('r', REPLACE(REPLACE(TRIM(TRAILING '=' FROM TO_BASE64(id)), '+', '-'), '/', '_'),
		':', due_at) WHERE state = 0 AND due_at = %d`, j.due.UnixMilli()))
	if time.Until(j.due) < 5*time.Second {
		w.Fatal("making the ticks took too long")
	}
	took, _ := w.took(j)
	var made int64
	if err := w.db.QueryRowContext(w.Context(), "SELECT COALESCE(SUM(made - 1), 0) FROM duetime_recurrences WHERE passed > ?", j.due.UnixMilli()).Scan(&made); err != nil || made%n != 0 || made == 0 {
		w.Errorf("%d next ticks of %d were made: %v", made, n, err)
	}
	return float64(n) / took.Seconds()
}
