package bench_test

import (
	"time"

	"github.com/duetime/duetime/bench/protocol"
	"github.com/duetime/duetime/bench/report"
)

// bulk is how many jobs one call of a bulk makes: the most that duetime takes.
const bulk = 1000

// acceptSteps measure how fast jobs are made with a durable row each.
func acceptSteps(w *world) [][]step {
	w.running()
	w.accept(64, 1, false, time.Second/2) // opens the connections
	of := func(m report.Metric, callers int, many int64, turns int, long time.Duration) []step {
		return []step{{w, m, turns, func() amount { return w.accept(callers, many, false, w.bench.seconds(long)) }}}
	}
	steps := [][]step{
		of(report.Accept8, 8, 1, 3, time.Second),
		of(report.Accept64, 64, 1, 3, time.Second),
		// The most rows come last: they keep servers busy behind the callers' backs for a while. What was begun by the end of
		// a turn counts less in a long one.
		of(report.AcceptBulk8, 8, bulk, 2, 3*time.Second),
		of(report.AcceptBulk64, 64, bulk, 1, 3*time.Second),
	}
	if !ours(w.system) {
		return steps
	}
	own := func(m report.Metric, callers int) step {
		return step{w, m, 1, func() amount { return w.accept(callers, 1, true, w.bench.seconds(time.Second)) }}
	}
	return append([][]step{{own(report.AcceptOwn8, 8)}, {own(report.AcceptOwn64, 64)}}, steps...)
}

// accept makes jobs for so long, until the last one can fire, own with a row of the service in each transaction: duetime answers once the rows have committed, and its index may
// follow.
func (w *world) accept(callers int, bulk int64, own bool, long time.Duration) amount {
	w.Helper()
	var before int64
	if ours(w.system) {
		before = w.indexed(0)
	}
	began := time.Now()
	r := w.producer.must(w, protocol.Request{
		Op: "accept", First: w.next, Due: time.Now().Add(farOff).UnixMicro(), Callers: callers, Bulk: int(bulk), Seconds: long.Seconds(), Own: own,
	})
	w.next += r.Jobs + int64(callers)*bulk // as many numbers are left free
	if !ours(w.system) {
		return amountOf(r)
	}
	w.indexed(before + r.Jobs)
	return amount{r.Jobs, time.Since(began)}
}

// pending are jobs that wait to be moved.
type pending struct{ first, n, perOwner int64 }

// moveSteps measure how fast pending jobs get another time.
func moveSteps(w *world) [][]step {
	w.running()
	n := w.bench.count(100_000)
	few := pending{w.preload(n, 2), n, 2} // as many as a player has
	due := time.Now().Add(2 * farOff)
	of := func(m report.Metric, op string, of pending, callers, turns int, apart, long time.Duration) step {
		return step{w, m, turns, func() amount {
			due = due.Add(time.Hour)
			return amountOf(w.producer.must(w, protocol.Request{
				Op: op, First: of.first, Count: of.n, PerOwner: of.perOwner, Due: due.UnixMicro(), Step: apart.Microseconds(), Callers: callers,
				Seconds: w.bench.seconds(long).Seconds(),
			}))
		}}
	}
	moved := of(report.Moved, "move", few, workers, 3, farStep, time.Second)
	moved.do() // opens the connections
	if !ours(w.system) {
		return [][]step{{moved}}
	}
	const perOwner = 100
	many := pending{w.preload(n/10, perOwner), n / 10, perOwner}
	return [][]step{{moved}, {
		of(report.MovedAlone, "move", many, 1, 6, farStep, time.Second/2),
		of(report.MovedTogether, "moveowner", many, 1, 6, time.Minute, time.Second/2),
	}}
}

func amountOf(r protocol.Response) amount {
	return amount{r.Jobs, time.Duration(r.Micros) * time.Microsecond}
}
