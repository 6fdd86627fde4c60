package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
)

// sweeps are the passes that compare rows and entries. A pass is in the file of its name, which is also the name of its loop in
// logs and metrics.
//
// One more has no interval: compensate reads messages, and puts the rows that they name, which is no drift.
func (r *Reconciler) sweeps() []pass {
	return []pass{
		// puts rows that are due soon, or come within the horizon
		{name: "lookahead", interval: r.cfg.Interval, sleep: byRows, run: new(lookahead).pass},
		// puts rows again that are past their time: at once if the queue's backlog shows that the hint is lost, not while the
		// backlog explains the wait, else at ages that double; mends entries with another time
		{name: "overdue", interval: r.cfg.Interval, sleep: longer, run: new(overdue).pass},
		// compares rows in any state that changed lately, and once more before they leave the window; finds entries of finished
		// tasks in owners' sets
		{name: "changed", interval: 2 * r.cfg.Interval, sleep: longer, yields: true, run: new(changed).pass},
		// fills shards without a generation marker, whose memory was lost: near-due rows first, the marker last
		{name: "rebuild", interval: time.Second, sleep: never, wake: r.wake, proves: true, run: new(rebuild).pass},
		// moves rows to their owners' places while the number of shards changes
		{name: "rehome", interval: time.Second, sleep: never, yields: true, run: new(rehome).pass},
		// changes in steps how far ahead tasks stand in the index
		{name: "horizon", interval: time.Second, sleep: byRows, run: new(horizon).pass},
		// compare samples of rows, and of entries; compare everything once any pass has found drift or a lost hint, or has
		// another reason
		{name: "audit rows", interval: sampleInterval, sleep: idly, wake: r.wakeRows, yields: true, run: new(auditRows).pass},
		{name: "audit index", interval: sampleInterval, sleep: idly, wake: r.wakeIndex, yields: true, run: new(auditIndex).pass},
	}
}

// chores are the daemon's other passes, which change rows. They need no Redis.
func (r *Reconciler) chores() []pass {
	return []pass{
		// carries out changes of many tasks that services and operators have asked for; waits for rebuilds by itself
		{name: "operations", interval: time.Second, sleep: never, run: chore((&operations{r: r}).pass)},
		// makes the next task of each recurrence that was left behind
		{name: "recurrences", interval: r.cfg.Interval, sleep: byTime, run: chore((&recurrences{r: r}).pass)},
		// cancels the tasks, and stops the recurrences, that a transaction has left of an owner blocked within the last hour
		{name: "blocked", interval: time.Minute, sleep: byTime, run: chore((&blocked{r: r}).pass)},
		// wakes what was put off to the end of a pause that was resumed before, and deletes pauses that are over
		{name: "pauses", interval: time.Second, sleep: never, run: chore((&pauses{r: r}).pass)},
		// counts members of groups that ended elsewhere
		{name: "groups", interval: groupsInterval, sleep: byTime, run: chore((&groups{r: r}).pass)},
		// moves tasks that ended a while ago to a table of their own
		{name: "archive", interval: archiveEvery, sleep: byTime, run: chore(r.archive)},
		// deletes finished rows past their retention, history, recurrences, operations and groups of the same age, and what is left of
		// queues that nobody has used for as long
		{name: "purge", interval: min(time.Minute, r.cfg.Retention), sleep: byTime, run: chore(newPurge(r).pass)},
	}
}

func (r *Reconciler) passes() []pass {
	if r.index == nil {
		return r.chores()
	}
	return slices.Concat(r.sweeps(), r.chores())
}

// pass is one repeating job of a term.
type pass struct {
	name     string
	interval time.Duration
	sleep    sleepRule
	wake     <-chan struct{}
	yields   bool // waits while a rebuild is under way, or may be needed
	proves   bool // its success proves that both servers answer
	run      func(ctx context.Context, s *sweep) (loop.Result, error)
}

// chore makes a pass's run of a function that needs only the time.
func chore(run func(ctx context.Context, now clock) (loop.Result, error)) func(context.Context, *sweep) (loop.Result, error) {
	return func(ctx context.Context, s *sweep) (loop.Result, error) { return run(ctx, s.now) }
}

// Passes returns the passes of a term by their names, for a caller that says when each runs: tests play races with them. Lead
// runs the same passes in loops. The pass "compensate" reads messages until its context ends.
func (r *Reconciler) Passes(epoch int64, term Term) map[string]func(context.Context) (loop.Result, error) {
	named := map[string]func(context.Context) (loop.Result, error){
		"compensate": func(ctx context.Context) (loop.Result, error) {
			return loop.Result{}, r.stream.Compensations(ctx, r.compensate)
		},
	}
	for _, p := range r.passes() {
		named[p.name] = func(ctx context.Context) (loop.Result, error) {
			res, _, err := r.runOnce(ctx, p, epoch, term)
			return res, err
		}
	}
	return named
}

const failedShardsLogInterval = 30 * time.Second // for shards that fail in every pass

// repeat runs one pass in a loop.
func (r *Reconciler) repeat(ctx context.Context, p pass, epoch int64, term Term) error {
	var sleepsUntil, logged time.Time
	succeeded := r.cfg.Loops.Of(p.name) // not Config.Succeeded: the loop also runs while the pass sleeps
	return loop.Run(ctx, loop.Config{
		Name: "reconcile " + p.name, Interval: p.interval, Jitter: 0.1,
		MinBackoff: 200 * time.Millisecond, MaxBackoff: 2 * time.Second, Wake: p.wake, Logger: r.cfg.Logger,
	}, func(ctx context.Context) (loop.Result, error) {
		if wait := time.Until(sleepsUntil); wait > 0 {
			return loop.Result{Next: wait}, nil
		}
		if p.yields && r.filling.Load() {
			return loop.Result{Next: yieldInterval}, nil
		}
		res, sleep, err := r.runOnce(ctx, p, epoch, term)
		failed, partial := protocol.FailedShards(err)
		switch {
		case err == nil:
			succeeded()
		case !partial:
			return res, err
		case time.Since(logged) > failedShardsLogInterval: // the pass did its work in the other shards
			logged = time.Now()
			r.cfg.Logger.WarnContext(ctx, "pass went on without some shards", "loop", p.name, "n", len(failed), "err", err)
		}
		if sleepsUntil = time.Now().Add(sleep); res.More && sleep > 0 {
			res = loop.Result{Next: sleep}
		}
		return res, nil
	})
}

// runOnce runs a pass once, unless a newer daemon leads, and returns how long the pass sleeps after it.
func (r *Reconciler) runOnce(ctx context.Context, p pass, epoch int64, term Term) (res loop.Result, sleep time.Duration, err error) {
	asked := time.Now()
	now, current, err := r.store.Moment(ctx, r.cfg.Name)
	if err != nil {
		return loop.Result{}, 0, err
	}
	if current > epoch {
		term.Fenced(current)
		return loop.Result{}, 0, loop.Stop(ErrFenced)
	}
	if p.proves {
		defer r.progressWhileAnswered(ctx, term)()
	}
	s := r.sweep(p, since(now, asked))
	res, err = s.runPass(ctx)
	if p.proves {
		reportProgress(term, err)
	}
	if err != nil {
		err = fmt.Errorf("reconcile %s: %w", p.name, err)
	}
	return res, s.sleepAfter(s.began, maxExtraSleep), err
}
