package worker

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/settle"
	"github.com/duetime/duetime/pkg/task"
)

// # The protocol "look"
//
// A look finds due tasks in MySQL, so that tasks are on time while no hint comes: Redis, Kafka, ZooKeeper, the event processes
// and the daemon may all be away.
//
//  1. A worker looks for each of its queues once a second, unless the queue is paused, MySQL is away, or hints of the queue
//     wait for a free runner: what comes late then is known, and not lost. It also looks when it has lost its partitions: what
//     is late then would wait until all members have joined again.
//  2. One seek in the index of next tries says whether any task is overdue by Config.Late. In good health none is. The seek begins at the
//     floor of pending rows (internal/store/floor.go), not at the first entry.
//  3. Of what became due lately, a worker takes its share (protocol.Share). What nobody has taken for a further anybodysAfter is
//     anybody's: a worker takes a few, from a random place. So an idle worker helps a busy one, and a worker without a partition
//     has work. That one begins at the latest of what is overdue: at the earliest those with hints are at work. Whoever has settled what
//     a look found looks again at once.
//  4. A found task is held and settled as one that a hint brought, by its row under the lock. It may have run in a process that
//     died: so it is a suspect, charged before it runs. A task that is found ahead of its moment has not run yet.
//  5. A found row that is locked is dropped: whoever has locked it is at work on it.
//  6. A look with news makes the queue degraded: looks come every 50 ms, and take tasks ahead of their moment. Without news
//     for five seconds the queue is healthy again, also if no look is made.
//
// Where a queue has a rate for each owner, a worker looks for the tasks whose hints would come to it alone, in all shares: it gives slots to
// the others of their owners.
//
// A look is bounded: it examines maxExamined rows of late and as many older ones. Rows of queues that are paused, of kinds
// without a handler here, and other workers' shares are left out by MySQL, but are examined. So a look that ends at the bound
// goes on behind it the next time, and begins anew once it came to the end.

const (
	minLate        = 100 * time.Millisecond
	maxExamined    = 2000                  // rows of one look
	maxAnybodys    = 1000                  // tasks that one look takes of those that are anybody's
	anybodysAfter  = 2 * time.Second       // beyond Config.Late
	recordInterval = time.Minute           // between lines of the history while looks stand in for hints
	lookTimeout    = 2 * time.Second       // then MySQL is busy with other things
	busyInterval   = 20 * time.Millisecond // to the next look while hints wait for a runner, in degraded mode or what looks have found
)

// Why a worker took a task that no hint had brought: values of a label.
const (
	causeLate     = "late"     // overdue, of its share
	causeAhead    = "ahead"    // before its moment, of its share
	causeAnybodys = "anybodys" // overdue for long
)

// looker looks for the due tasks of one queue. One goroutine uses it.
type looker struct {
	queue *queue
	kinds []string // with a handler here
	mode  mode
	late  protocol.Cursor // where the next look for what became due lately goes on; zero: at the beginning
	older protocol.Cursor // where the next look for what is older goes on

	took    bool // the last look has held tasks
	settled bool // since then some that were found were settled
	helps   bool // looks come soon: the last one held tasks, the first to do so or after one of which some were settled

	wake     chan struct{}
	recorded time.Time // when the mode was last told in the history, on the local clock
}

func newLooker(q *queue) *looker { return &looker{queue: q, wake: make(chan struct{}, 1)} }

// run looks until ctx ends.
func (l *looker) run(ctx context.Context) {
	l.show()
	cfg := loop.Config{
		Name: "look for " + l.queue.name, Interval: lookInterval, MaxBackoff: settle.MaxProbeInterval, Logger: l.queue.log,
		Wake: l.wake,
	}
	_ = loop.Run(ctx, cfg, l.pass) // it ends with ctx alone
}

// pass looks once, unless there is a reason not to.
func (l *looker) pass(ctx context.Context) (loop.Result, error) {
	q, w := l.queue, l.queue.worker
	if closed, _ := w.gate.NextProbe(); closed {
		return loop.Result{}, nil
	}
	found := q.hold.TakeFound()
	l.settled = l.settled || found.Settled > 0
	l.setMode(ctx, l.mode.after(found.Missed > 0, w.clock.Local())) // also where no look follows, or none comes to its end
	if q.hold.Paused() {
		return loop.Result{}, nil
	}
	share, brings := q.share()
	if q.hold.HasDue() {
		if l.mode.degraded || l.helps {
			return loop.Result{Next: busyInterval}, nil
		}
		return loop.Result{}, nil
	}
	tookBefore := l.took
	l.took = false
	news, err := l.look(ctx, share, brings)
	l.helps, l.settled = l.took && (l.settled || !tookBefore), false
	if err != nil {
		return loop.Result{}, err
	}
	if news {
		l.setMode(ctx, l.mode.after(true, w.clock.Local()))
	}
	next := l.mode.interval(membersOf(share))
	if l.helps {
		next = min(next, degradedInterval)
	}
	return loop.Result{Next: next - rand.N(next/5)}, nil //nolint:gosec // Spreads load, guards nothing.
}

// look holds what it finds. There is news if a task was overdue whose hint should have come here.
func (l *looker) look(ctx context.Context, share protocol.Share, brings func(task.Task) bool) (news bool, err error) {
	w := l.queue.worker
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	began := time.Now()
	defer func() { w.metrics.looks.Observe(time.Since(began).Seconds()) }()
	now := w.clock.Now()
	overdue := now.Add(-w.cfg.Late)
	until, old := overdue, overdue.Add(-anybodysAfter)
	switch {
	case share.Empty():
		old = overdue // nothing is its own: it helps others
	case l.mode.degraded:
		until = now.Add(l.mode.ahead(membersOf(share)))
	}
	mayTake := func(task.Task) bool { return true }
	if l.queue.hold.Limit().OwnerRate != (task.Rate{}) {
		if share.Empty() {
			return false, nil
		}
		share, mayTake = protocol.Share{}, brings
	}
	floor, err := w.looks.Floor(ctx)
	if err != nil {
		return false, err
	}
	first, err := w.looks.Pending(ctx, floor, until, protocol.Cursor{}, 1)
	if err != nil || len(first) == 0 {
		return false, err
	}
	take := func(rows []task.Task, causeOf func(task.Task) string) {
		for _, row := range rows {
			if !mayTake(row) {
				continue
			}
			charged := row.Version > 1 && row.UpdatedAt.After(row.RunAt) // beforehand: its hint has come, under the version before
			awaited := brings(row) && !charged
			if l.hold(row, awaited, causeOf(row)) && awaited && row.RunAt.Before(overdue) {
				news = true
			}
		}
	}
	if !share.Empty() {
		rows, err := l.examine(ctx, &l.late, protocol.Look{Share: share, From: old, To: until})
		if err != nil {
			return news, err
		}
		take(rows, func(row task.Task) string {
			if row.RunAt.After(now) {
				return causeAhead
			}
			return causeLate
		})
	}
	if first[0].RunAt.Before(old) {
		rows, err := l.examine(ctx, &l.older, protocol.Look{From: floor, To: old, Back: share.Empty()})
		if err != nil {
			return news, err
		}
		take(some(rows, maxAnybodys), func(task.Task) string { return causeAnybodys })
	}
	return news, nil
}

// examine reads the next page of a walk.
func (l *looker) examine(ctx context.Context, walk *protocol.Cursor, look protocol.Look) (found []task.Task, err error) {
	look.Queue, look.Kinds, look.After, look.Limit = l.queue.name, l.kinds, *walk, maxExamined
	found, next, err := l.queue.worker.looks.Look(ctx, look)
	if err == nil {
		*walk = next
	}
	return found, err
}

// hold holds a found task, and reports whether it was not held already.
func (l *looker) hold(row task.Task, awaited bool, cause string) bool {
	q, w := l.queue, l.queue.worker
	h := hold.FoundHint(row, w.clock.Now(), w.cfg.Patience)
	h.Awaited = awaited
	if !q.hold.Add(h) {
		return false
	}
	l.took = true
	w.metrics.found.WithLabelValues(q.name, cause).Inc()
	return true
}

// setMode tells when looks begin to stand in for hints, and when they end to.
func (l *looker) setMode(ctx context.Context, m mode) {
	changed, log := m.degraded != l.mode.degraded, l.queue.log
	l.mode = m
	switch {
	case changed && m.degraded:
		log.WarnContext(ctx, "degraded: hints don't come in time, due tasks are looked for in MySQL")
	case changed:
		log.InfoContext(ctx, "recovered: hints come in time again")
	case !m.degraded || l.queue.worker.clock.Local().Sub(l.recorded) < recordInterval:
		return
	}
	l.show()
	l.record(ctx)
}

// record tells people who look at the history.
func (l *looker) record(ctx context.Context) {
	w := l.queue.worker
	l.recorded = w.clock.Local()
	e := protocol.Event{At: w.clock.Now(), Name: protocol.EventRecovered, Actor: protocol.ActorWorker + " " + l.queue.holder, Detail: l.queue.name}
	if l.mode.degraded {
		e.Name = protocol.EventDegraded
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if err := w.looks.Record(ctx, nil, []protocol.Event{e}); err != nil {
		l.queue.log.WarnContext(ctx, "history not written", slog.Int("n", 1), slog.Any("err", err))
	}
}

func (l *looker) show() {
	degraded := 0.0
	if l.mode.degraded {
		degraded = 1
	}
	l.queue.worker.metrics.degraded.WithLabelValues(l.queue.name).Set(degraded)
}

// share returns the part of the queue's tasks for which the worker looks, by the last assignment of partitions, and what tells
// whether a task's hint would come to it. Before the first assignment all are its own.
func (q *queue) share() (share protocol.Share, brings func(task.Task) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.last == nil {
		return protocol.Share{}, func(task.Task) bool { return true }
	}
	return q.last.Share(), q.last.Brings
}

// membersOf estimates how many workers have a share.
func membersOf(s protocol.Share) int {
	if len(s.Mine) == 0 {
		return max(1, s.Of)
	}
	return (s.Of + len(s.Mine) - 1) / len(s.Mine)
}

// some returns at most n neighbouring tasks, from a random place.
func some(tasks []task.Task, n int) []task.Task {
	if len(tasks) <= n {
		return tasks
	}
	from := rand.IntN(len(tasks) - n + 1) //nolint:gosec // Spreads load, guards nothing.
	return slices.Clone(tasks[from : from+n])
}
