package bench_test

import (
	"cmp"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/bench/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

const (
	slice     = 100_000        // most jobs of one request
	farOff    = 10 * time.Hour // beyond every run
	farStep   = time.Millisecond
	warmUp    = 500
	restLimit = 3 * time.Minute // for what is overdue: beyond it a system is taken to have lost it
	stalled   = time.Minute     // without one more done: the same. asynq runs again what failed after 15 to 45 s
)

// jobs are some that are due soon, step apart.
type jobs struct {
	first, n int64
	due      time.Time // of the first
	step     time.Duration
	before   protocol.Response // what the worker had seen before
	paced    *errgroup.Group   // makes them just in time; nil if all are made
}

// last is the due time of the last one.
func (j jobs) last() time.Time { return j.due.Add(time.Duration(j.n-1) * j.step) }

// take gives out n job numbers, and prepares what their effects write to.
func (w *world) take(n int64) int64 {
	w.Helper()
	first := w.next
	w.next += n
	if w.effect {
		numbers := pipelinetest.Numbers(first, w.next-1) + " ORDER BY seq" // else the pages of the tables are half empty
		w.exec("INSERT INTO bench_pets (id) SELECT seq FROM " + numbers)
		if !w.system.ownRows {
			w.exec("INSERT INTO bench_tasks (id, due_at) SELECT seq, 0 FROM " + numbers)
		}
	}
	return first
}

// load makes jobs in bulk and learns how fast that is.
func (w *world) load(first, n int64, due time.Time, step time.Duration, perOwner int64) {
	w.Helper()
	began := time.Now()
	pipelinetest.Must(w, w.schedule(first, n, due, step, perOwner))
	w.rate = float64(n) / time.Since(began).Seconds()
}

func (w *world) schedule(first, n int64, due time.Time, step time.Duration, perOwner int64) error {
	for done := int64(0); done < n; done += slice {
		_, err := w.producer.call(protocol.Request{
			Op: "schedule", First: first + done, Count: min(slice, n-done), PerOwner: perOwner,
			Due: due.Add(time.Duration(done) * step).UnixMicro(), Step: step.Microseconds(),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// preload makes jobs that are due far off and returns the first's number. Where each delay is a queue, they are due at
// once.
func (w *world) preload(n, perOwner int64) int64 {
	w.Helper()
	first, step := w.next, farStep
	w.next += n
	if w.system.paces {
		step = 0
	}
	w.load(first, n, time.Now().Add(farOff), step, perOwner)
	return first
}

// warm runs some jobs, so that connections are open, and groups joined, before anything is measured.
func (w *world) warm() {
	w.Helper()
	j := jobs{first: w.take(warmUp), n: warmUp, due: time.Now().Add(max(w.system.ahead, time.Second)), before: w.seen(true)}
	w.load(j.first, j.n, j.due, 0, 1)
	if _, ok := w.finish(j, 10*time.Millisecond); !ok {
		w.Fatalf("not all of %d jobs were run", warmUp)
	}
}

// soon makes jobs, step apart, that are due a little after all of them are made: from a whole second on, because some
// systems know no finer times.
func (w *world) soon(n int64, step time.Duration) jobs {
	w.Helper()
	ahead := max(w.system.ahead, 1500*time.Millisecond)
	for loading := time.Duration(1.5 * float64(n) / w.rate * float64(time.Second)); ; loading = 2*loading + time.Second {
		j := jobs{first: w.take(n), n: n, step: step, before: w.seen(true)}
		if w.system.paces && (step > 0 || w.system.fixed) {
			return w.hand(j, ahead)
		}
		j.due = time.Now().Add(ahead + loading + time.Second).Truncate(time.Second)
		w.load(j.first, n, j.due, step, 1)
		if time.Until(j.due) > ahead*3/4 {
			return j
		}
		w.Logf("making %d jobs took until %v before the first was due; again with more time", n, time.Until(j.due))
		if _, ok := w.finish(j, 100*time.Millisecond); !ok {
			w.Fatalf("not all of %d jobs were run", n)
		}
	}
}

// hand begins to make jobs just in time.
func (w *world) hand(j jobs, ahead time.Duration) jobs {
	j.due = time.Now().Add(ahead + time.Second).Truncate(time.Second)
	j.paced = new(errgroup.Group)
	j.paced.Go(func() error { return w.schedule(j.first, j.n, j.due, j.step, 1) })
	return j
}

// seen is what the worker has done so far; with its histogram of lags, where it has one, if asked.
func (w *world) seen(lag bool) protocol.Response {
	w.Helper()
	return w.worker.must(w, protocol.Request{Op: "seen", Lag: lag})
}

// finish polls until all jobs are done, and returns how many were when, in s after the due time. False: after a long
// while they are not.
func (w *world) finish(j jobs, every time.Duration) ([]sample, bool) {
	w.Helper()
	var samples []sample
	var before int64
	alive := j.last()
	for limit := j.last().Add(restLimit); ; time.Sleep(every) {
		now := time.Now()
		done := w.seen(false).Done - j.before.Done
		if done != before && now.After(alive) {
			before, alive = done, now
		}
		if after := now.Sub(j.due); after > 0 {
			samples = append(samples, sample{after.Seconds(), done})
		}
		if done >= j.n || now.After(limit) || now.Sub(alive) > stalled {
			if j.paced != nil {
				pipelinetest.Must(w, j.paced.Wait())
			}
			return samples, done >= j.n
		}
	}
}

// sample says how many effects had committed after how many seconds.
type sample struct {
	after float64
	done  int64
}

// often is how many runs there are of what takes long and is about duetime: the others' is shown once.
func (w *world) often() int {
	if ours(w.system) {
		return w.bench.runs
	}
	return 1
}

// repeat calls do for each run, or once for systems that have one run. Systems that are no main ones stop early when the
// rest of the work would not get its time: one run for each that is still to come.
func (w *world) repeat(do func(run int)) {
	began := time.Now()
	for run := range w.bench.repeats {
		do(w.bench.round + run)
		w.first = cmp.Or(w.first, time.Since(w.opened)) // its start included
		once := time.Since(began) / time.Duration(run+1)
		need := once + time.Duration(w.bench.left)*w.first
		if w.system.once || w.system.spare && time.Now().Add(need).After(w.bench.until) {
			return
		}
	}
}
