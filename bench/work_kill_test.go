package bench_test

import (
	"time"

	"github.com/duetime/duetime/bench/protocol"
	"github.com/duetime/duetime/bench/report"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

const (
	killLimit = 150 * time.Second
	// calm is how long nothing may change before it is believed that nothing will.
	calm = 5 * time.Second
)

// kill ends the only worker in the middle of a burst, starts it again, and counts what is lost and what is doubled.
func kill(w *world) {
	w.work(true)
	for range w.often() {
		j, share := w.killed(max(w.bench.count(5000), 1000))
		restarted := time.Now()
		w.restart()
		fed, last := w.settle(j, restarted)
		w.record(report.KillLost, float64(fed.lost))
		w.record(report.KillDoubled, float64(fed.doubled))
		w.record(report.KillHealed, last.Sub(restarted).Seconds())
		w.record(report.KillAt, 100*share)
	}
}

// killed kills the worker when a fifth of the jobs or more is done, and tells how much was. A burst may be nearly over before
// that is seen: the next one is then struck at half the time after it was due, or half as much later if that was too soon.
func (w *world) killed(n int64) (jobs, float64) {
	w.Helper()
	var after time.Duration
	for range 10 {
		j := w.soon(n, 0)
		if after == 0 {
			w.await(time.Until(j.due)+restLimit, "a fifth of the jobs to be done", func() bool {
				return w.seen(false).Done-j.before.Done >= n/5
			})
			after = time.Since(j.due)
		} else {
			time.Sleep(time.Until(j.due.Add(after)))
		}
		w.worker.kill()
		switch f := w.fed(j); {
		case f.lost < n/4:
			after /= 2
		case f.lost == n:
			after += after / 2
		default:
			return j, 1 - float64(f.lost)/float64(n)
		}
		w.restart()
		w.warm()
	}
	w.Fatalf("it was never killed in the middle")
	return jobs{}, 0
}

// restart runs the worker again.
func (w *world) restart() {
	w.Helper()
	w.worker = w.start("work")
	w.worker.must(w, protocol.Request{Op: "work", Effect: true})
}

// fed is what came of the effects.
type fed struct{ lost, doubled int64 }

func (w *world) fed(j jobs) fed {
	w.Helper()
	var f fed
	row := w.db.QueryRowContext(w.Context(), `SELECT COALESCE(SUM(meals = 0), 0), COALESCE(SUM(meals > 1), 0) FROM bench_pets
		WHERE id >= ? AND id < ?`, j.first, j.first+j.n)
	pipelinetest.Must(w, row.Scan(&f.lost, &f.doubled))
	return f
}

// settle watches until nothing changes any more, and gives what is left and when it last changed. It waits for as long
// as the system itself takes to run again what was running; where something is lost, longer.
func (w *world) settle(j jobs, restarted time.Time) (fed, time.Time) {
	w.Helper()
	before, last := w.fed(j), restarted
	for {
		time.Sleep(50 * time.Millisecond)
		now := time.Now()
		f := w.fed(j)
		if f != before {
			before, last = f, now
		}
		patience := w.system.patience
		if f.lost > 0 {
			patience += 2 * calm
		}
		if now.Sub(last) >= calm && now.Sub(restarted) >= patience || now.Sub(restarted) >= killLimit {
			return before, last
		}
	}
}
