package bench_test

import (
	"time"

	"github.com/duetime/duetime/bench/protocol"
	"github.com/duetime/duetime/bench/report"
	"github.com/duetime/duetime/internal/pipelinetest"
)

// bulk is how many jobs one call of a bulk makes: the most that duetime takes.
const bulk = 1000

// accept measures how fast jobs are made with a durable row each.
func accept(w *world) {
	w.running()
	w.accept(64, 1, time.Second/2) // opens the connections
	each := w.bench.seconds(2 * time.Second)
	// The most rows come last: they keep servers busy behind the callers' backs for a while.
	w.repeat(func(int) { w.record(report.Accept8, w.accept(8, 1, each)) })
	w.repeat(func(int) { w.record(report.Accept64, w.accept(64, 1, each)) })
	long := 2 * each // what was begun by its end counts less
	w.repeat(func(int) {
		w.record(report.AcceptBulk8, w.accept(8, bulk, long))
		w.record(report.AcceptBulk64, w.accept(64, bulk, long))
	})
}

// accept makes jobs for so long and tells how many a second, until the last one can fire: duetime answers once the rows have
// committed, and its index may follow.
func (w *world) accept(callers int, bulk int64, long time.Duration) float64 {
	w.Helper()
	var before int64
	if ours(w.system) {
		before = w.indexed(0)
	}
	began := time.Now()
	r := w.producer.must(w, protocol.Request{
		Op: "accept", First: w.next, Due: time.Now().Add(farOff).UnixMicro(), Callers: callers, Bulk: int(bulk), Seconds: long.Seconds(),
	})
	w.next += r.Jobs + int64(callers)*bulk // as many numbers are left free
	if !ours(w.system) {
		return perSecond(r)
	}
	w.indexed(before + r.Jobs)
	return float64(r.Jobs) / time.Since(began).Seconds()
}

func perSecond(r protocol.Response) float64 { return float64(r.Jobs) * 1e6 / float64(max(r.Micros, 1)) }

// pending are jobs that wait to be moved.
type pending struct{ first, n, perOwner int64 }

// move measures how fast pending jobs get another time.
func move(w *world) {
	w.running()
	n := w.bench.count(100_000)
	few := pending{w.preload(n, 2), n, 2} // as many as a player has
	long := w.bench.seconds(3 * time.Second)
	due := time.Now().Add(2 * farOff)
	ask := func(op string, of pending, callers int, step, long time.Duration) protocol.Response {
		due = due.Add(time.Hour)
		r, err := w.producer.call(protocol.Request{
			Op: op, First: of.first, Count: of.n, PerOwner: of.perOwner, Due: due.UnixMicro(), Step: step.Microseconds(), Callers: callers,
			Seconds: long.Seconds(),
		})
		pipelinetest.Must(w, err)
		return r
	}
	ask("move", few, workers, farStep, long) // opens the connections
	w.repeat(func(int) { w.record(report.Moved, perSecond(ask("move", few, workers, farStep, long))) })
	if !ours(w.system) {
		return
	}
	const perOwner = 100
	many := pending{w.preload(n/10, perOwner), n / 10, perOwner}
	w.repeat(func(int) {
		var alone, together protocol.Response
		const turns = 6 // a machine whose speed changes must not favour either
		for range turns {
			alone = plus(alone, ask("move", many, 1, farStep, long/turns))
			together = plus(together, ask("moveowner", many, 1, time.Minute, long/turns))
		}
		w.record(report.MovedAlone, perSecond(alone))
		w.record(report.MovedTogether, perSecond(together))
	})
}

// plus is what two requests did together, one after the other.
func plus(a, b protocol.Response) protocol.Response {
	return protocol.Response{Jobs: a.Jobs + b.Jobs, Micros: a.Micros + b.Micros}
}
