package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/duetime/duetime/internal/loop"
)

// clock returns the database's time: the time read when the pass began, plus the time since. With the time of its
// beginning, a long pass would expect rows in the due set whose moment has come meanwhile.
type clock func() time.Time

// clock reads the database's time once, and returns a clock that goes on by the local one.
func (r *Reconciler) clock(ctx context.Context) (clock, error) {
	asked := time.Now()
	now, err := r.store.Now(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("read the database's clock: %w", err)
	}
	return since(now, asked), nil
}

// since returns a clock that read now when the local time was asked.
func since(now, asked time.Time) clock {
	return func() time.Time { return now.Add(time.Since(asked)) }
}

// sweep is one run of a pass that compares rows and entries.
type sweep struct {
	*Reconciler
	index *reachable // hides that of the Reconciler
	now   clock
	pass

	began   time.Time
	alarmed int64         // alarms when the sweep began; -1: it does not sleep
	extra   time.Duration // that remains for longer sleeps
	woke    time.Time     // when the sweep began or its last sleep ended
	looked  int           // rows looked at since then
}

func (r *Reconciler) sweep(p pass, now clock) *sweep {
	return &sweep{
		Reconciler: r, index: &reachable{Index: r.index}, now: now, pass: p,
		began: time.Now(), alarmed: r.alarms.Load(), extra: maxExtraSleep, woke: time.Now(),
	}
}

// runPass runs the pass. The shards that it has skipped are its error, if it has no other.
func (s *sweep) runPass(ctx context.Context) (loop.Result, error) {
	res, err := s.run(ctx, s)
	return res, cmp.Or(err, s.index.err())
}

// sleepRule says how long a pass sleeps after its work: a table with a million overdue rows must not take a core for the
// whole outage. Only the cost of looking at rows counts as work, bounded by lookCost for each row. A pass that waited out an
// outage, or put a hundred thousand rows, must not sleep when it is needed most.
type sleepRule int

const (
	byRows sleepRule = iota // sleepShare times as long as it looked at rows, also between its pages
	longer                  // idleShare times as long while nothing is found to mend: a burst needs the database for itself
	idly                    // idleShare times as long as the run took: it looks for rare differences
	byTime                  // sleepShare times as long as the run took
	never                   // the pass says by itself when it runs again
)

const (
	sleepShare    = 2
	idleShare     = 10
	maxExtraSleep = 30 * time.Second      // sum of the longer sleeps within one run, or the pass falls behind; also of the sleep after it
	lookCost      = 20 * time.Microsecond // of a row whose entries are right; about 6 on a quiet machine

	yieldInterval = 500 * time.Millisecond // between looks whether the rebuild has ended

	page      = 1000 // rows read at once
	smallPage = 200  // while nothing is found to mend: due tasks wait less for a core
)

// calm reports whether no pass has found anything to mend since the sweep began.
func (s *sweep) calm() bool { return s.alarms.Load() == s.alarmed }

// page returns how many rows to read at once.
func (s *sweep) page() int {
	if s.calm() && s.sleep != never {
		return smallPage
	}
	return page
}

// wait is called between two pages. It doesn't sleep if any pass found something to mend since the sweep began. If a newer
// daemon leads, other passes find this out and end ctx.
func (s *sweep) wait(ctx context.Context) error {
	for s.yields && s.filling.Load() && ctx.Err() == nil {
		loop.Sleep(ctx, yieldInterval)
	}
	if s.calm() && (s.sleep == byRows || s.sleep == longer) {
		d := s.sleepAfter(s.woke, s.extra)
		loop.Sleep(ctx, d)
		s.woke, s.looked, s.extra = time.Now(), 0, s.extra-d
	}
	return ctx.Err()
}

// sleepAfter returns how long to sleep after the work since a moment; extra bounds the longer sleep.
func (s *sweep) sleepAfter(since time.Time, extra time.Duration) time.Duration {
	worked := time.Since(since)
	looked := min(worked, time.Duration(s.looked)*lookCost)
	switch {
	case s.sleep == never:
		return 0
	case s.sleep == idly:
		return idleShare * worked
	case s.sleep == byTime:
		return sleepShare * worked
	case s.sleep == longer && s.calm():
		return max(sleepShare*looked, min(idleShare*looked, extra))
	}
	return sleepShare * looked
}
