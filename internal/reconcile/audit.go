package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/pkg/task"
)

const (
	sampleEvery = 10 * time.Second // between two samples
	sample      = 100              // entries in one
	auditEvery  = time.Second      // between passes of a whole audit
)

// pace makes an audit look at a sample now and then, and, once any pass has found drift, at everything at AuditRate, again
// until it finds none.
type pace struct {
	r     *Reconciler
	seen  int64 // alarms when the present round began
	heard int64 // alarms that a whole round has answered
	whole bool  // the present round is one
}

// rate is how many entries this pass looks at; fresh says that it must begin a round.
func (p *pace) rate() (n int, fresh bool) {
	alarms := p.r.alarms.Load()
	if alarms == p.heard {
		return min(sample, p.r.cfg.AuditRate), false
	}
	if fresh = !p.whole; fresh {
		p.whole, p.seen = true, alarms
	}
	return p.r.cfg.AuditRate, fresh
}

// ended says that the round has come to its end.
func (p *pace) ended() {
	if p.whole {
		p.heard = p.seen
	}
	p.whole = false
}

// next is when the next pass is due.
func (p *pace) next() loop.Result {
	if p.r.alarms.Load() == p.heard {
		return loop.Result{}
	}
	return loop.Result{Next: auditEvery}
}

// alarm has the audits look at everything. It tells which pass found n tasks otherwise than they should be.
func (r *Reconciler) alarm(ctx context.Context, reason string, n int) {
	r.alarms.Add(1)
	r.cfg.Logger.InfoContext(ctx, "drift found, all is audited", "reason", reason, "n", n)
	loop.Rouse(r.wakeRows)
	loop.Rouse(r.wakeIndex)
}

// auditRows walks the pending rows in time order, and mends what the index does not hold.
type auditRows struct {
	pace
	after   task.Cursor
	skipped skippedShards
}

func (a *auditRows) pass(ctx context.Context, now clock) (loop.Result, error) {
	rate, fresh := a.rate()
	if fresh {
		a.after = task.Cursor{}
	}
	a.skipped = skippedShards{}
	for done := 0; done < rate; done += page {
		n := min(page, rate)
		rows, err := a.r.store.Pending(ctx, time.Time{}, farFuture, a.after, n)
		if err != nil {
			return loop.Result{}, err
		}
		err = a.skipped.collect(a.r.mendUnlike(ctx, "audited", a.skipped.reachable(rows), now), rows)
		if _, partial := task.FailedShards(err); err != nil && !partial {
			return loop.Result{}, err
		}
		if len(rows) < n {
			a.after = task.Cursor{}
			a.ended()
			break
		}
		a.after = behind(rows)
	}
	return a.next(), a.skipped.err()
}

// auditIndex walks the members of all sets, and mends those that the rows contradict: entries of finished, purged or
// never committed tasks, and members that can't be read. It leaves out what fails, until the next round: what can't be read
// must not keep it from all that follows.
type auditIndex struct {
	pace
	shard   int
	owners  bool // the owners' sets of the shard, after its due set
	cursor  task.ScanCursor
	skipped skippedShards
	failed  int // shards in a row that could not be looked at
}

func (a *auditIndex) pass(ctx context.Context, now clock) (loop.Result, error) {
	layout, err := a.r.cfg.Layout(ctx)
	if err != nil {
		return loop.Result{}, fmt.Errorf("read the number of shards: %w", err)
	}
	rate, fresh := a.rate()
	if fresh {
		a.shard, a.owners, a.cursor = 0, false, task.ScanCursor{}
	}
	a.skipped, a.failed = skippedShards{}, 0
	count := min(page, rate)
	// A page costs something even if its keys all belong to others; and a small index is walked once, not round and round.
	for done, sets := 0, 0; done < rate && sets < 2*layout.Polled(); {
		n, err := a.page(ctx, count, now)
		if err := a.skip(ctx, err); err != nil {
			return loop.Result{}, err
		}
		done += max(n, count/20)
		if a.cursor.Done() {
			sets++
			a.nextSet(layout.Polled())
		}
	}
	return a.next(), a.skipped.err()
}

// skip passes over the present set if the index failed there, unless nothing can be looked at any more.
func (a *auditIndex) skip(ctx context.Context, err error) error {
	failed, partial := task.FailedShards(err)
	if !partial {
		a.failed = 0
		return err
	}
	a.cursor = task.ScanCursor{}
	if a.failed++; ctx.Err() != nil || a.failed >= maxFailedPages {
		return failed[a.shard]
	}
	return a.skipped.collect(err, nil)
}

// here says that the index failed in the present shard.
func (a *auditIndex) here(err error) error {
	return &task.ShardsError{Shards: map[int]error{a.shard: err}}
}

// nextSet goes on to the next set.
func (a *auditIndex) nextSet(shards int) {
	if a.owners {
		a.shard++
	}
	a.owners = !a.owners
	if a.shard >= shards {
		a.shard = 0
		a.ended()
	}
}

// page looks at one page of the present set and moves the cursor.
func (a *auditIndex) page(ctx context.Context, count int, now clock) (n int, err error) {
	scan := a.r.index.ScanDue
	if a.owners {
		scan = a.r.index.ScanOwners
	}
	entries, next, err := scan(ctx, a.shard, a.cursor, int64(count))
	if err != nil {
		return 0, a.here(fmt.Errorf("scan: %w", err))
	}
	for some := range slices.Chunk(entries, page) {
		if err := a.check(ctx, some, now); err != nil {
			return 0, err
		}
	}
	a.cursor = next
	return len(entries), nil
}

// check mends the members that the rows contradict.
func (a *auditIndex) check(ctx context.Context, entries []task.Entry, now clock) error {
	var tasks []task.Task
	var scores []task.Score
	for _, e := range entries {
		if e.Err != nil {
			if err := a.remove(ctx, e); err != nil {
				return err
			}
			continue
		}
		scores = append(scores, e.Score)
		tasks = append(tasks, task.Task{
			ID: e.ID, Kind: e.Kind, Queue: e.Queue, Owner: e.Owner, Subject: e.Subject, Shard: a.shard,
		})
	}
	if len(tasks) == 0 {
		return nil
	}
	rows, err := a.r.rows(ctx, tasks)
	if err != nil {
		return err
	}
	var unlike []task.Task
	for i, t := range tasks {
		row, found := rows[t.ID]
		if !found || row.Shard != t.Shard || !task.SameQueue(row, t) || task.ScoreOf(row) != scores[i] {
			unlike = append(unlike, t)
		}
	}
	return a.r.settle(ctx, "audited", unlike, now, leaveFlying)
}

// remove takes out a member that can't be read: no row can be found for it.
func (a *auditIndex) remove(ctx context.Context, e task.Entry) error {
	skipped, err := a.r.index.Remove(ctx, a.shard, e)
	if err != nil {
		return a.here(fmt.Errorf("remove an unreadable member: %w", err))
	}
	if skipped {
		a.r.metrics.drift.WithLabelValues(unreadableKind, driftExtra).Inc()
		a.r.alarm(ctx, "unreadable", 1)
		a.r.report(ctx, "unreadable", 1)
	}
	return nil
}
