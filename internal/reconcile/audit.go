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
	sampleInterval = 10 * time.Second // between two samples
	sampleEntries  = 100              // of one sample
	auditInterval  = time.Second      // between two passes of a whole audit
)

// pace makes an audit look at a sample in each pass. Once any pass has found drift, the audit looks at everything, at
// AuditRate, until a whole round finds no drift.
type pace struct {
	r              *Reconciler
	roundAlarms    int64 // alarms when the present whole round began
	answeredAlarms int64 // alarms before the last completed whole round
	whole          bool  // the present round looks at everything
}

// rate returns how many entries this pass looks at, and whether it begins a round.
func (p *pace) rate() (n int, begin bool) {
	alarms := p.r.alarms.Load()
	if alarms == p.answeredAlarms {
		return min(sampleEntries, p.r.cfg.AuditRate), false
	}
	if begin = !p.whole; begin {
		p.whole, p.roundAlarms = true, alarms
	}
	return p.r.cfg.AuditRate, begin
}

// endRound records the end of a round.
func (p *pace) endRound() {
	if p.whole {
		p.answeredAlarms = p.roundAlarms
	}
	p.whole = false
}

// next returns when the next pass runs.
func (p *pace) next() loop.Result {
	if p.r.alarms.Load() == p.answeredAlarms {
		return loop.Result{}
	}
	return loop.Result{Next: auditInterval}
}

// alarm makes the audits look at everything, if a pass has found n > 0 tasks whose entries differ from their rows.
func (r *Reconciler) alarm(ctx context.Context, reason string, n int) {
	if n == 0 {
		return
	}
	r.cfg.Logger.InfoContext(ctx, "drift found, all is audited", "reason", reason, "n", n)
	r.auditAll()
}

// auditAll makes the audits look at everything.
func (r *Reconciler) auditAll() {
	r.alarms.Add(1)
	loop.Rouse(r.wakeRows)
	loop.Rouse(r.wakeIndex)
}

// auditRows walks the pending rows in time order, and mends those whose entries are missing or wrong. With a horizon it also puts
// the rows behind it whose times no score can hold: they stand at 1970, so that a worker ends them.
type auditRows struct {
	pace
	after      task.Cursor
	unscorable task.Cursor // the last such row of the pass before
	skipped    skippedShards
}

// firstUnscorable is the first time that no score can hold.
var firstUnscorable = time.UnixMilli(1 << 41)

func (a *auditRows) pass(ctx context.Context, now clock) (loop.Result, error) {
	rate, begin := a.rate()
	if begin {
		a.after = task.Cursor{}
	}
	layout, err := a.r.layoutFor(ctx, "audited")
	if err != nil {
		return loop.Result{}, err
	}
	end := horizonEnd(layout, now)
	floor, err := a.r.store.Floor(ctx)
	if err != nil {
		return loop.Result{}, err
	}
	a.skipped = skippedShards{}
	if layout.Horizon > 0 {
		if err := a.putUnscorable(ctx, now); err != nil {
			return loop.Result{}, err
		}
	}
	for done := 0; done < rate; done += page {
		n := min(page, rate)
		rows, err := a.r.store.Pending(ctx, floor, end, a.after, n)
		if err != nil {
			return loop.Result{}, err
		}
		err = a.skipped.collect(a.r.mendUnlike(ctx, "audited", a.skipped.reachable(rows), now), rows)
		if _, partial := task.FailedShards(err); err != nil && !partial {
			return loop.Result{}, err
		}
		if len(rows) < n {
			a.after = task.Cursor{}
			a.endRound()
			break
		}
		a.after = behind(rows)
	}
	return a.next(), a.skipped.err()
}

// putUnscorable puts one page of rows whose times no score can hold: only other programs insert such rows.
func (a *auditRows) putUnscorable(ctx context.Context, now clock) error {
	rows, err := a.r.store.Pending(ctx, firstUnscorable, farFuture, a.unscorable, page)
	if err != nil {
		return err
	}
	a.unscorable = task.Cursor{}
	if len(rows) == page {
		a.unscorable = behind(rows)
	}
	return a.skipped.collect(a.r.mendUnlike(ctx, feedReason, rows, now), rows)
}

// auditIndex walks the members of all sets, and mends those that the rows contradict: entries of finished, purged or
// never committed tasks, and unreadable members. It skips a set that it can't read until the next round, or it would
// never reach the following sets.
type auditIndex struct {
	pace
	shard   int
	owners  bool // the walk is in the shard's owner sets, which come after its due set
	cursor  task.ScanCursor
	skipped skippedShards
	failed  int // sets in a row that could not be read
}

func (a *auditIndex) pass(ctx context.Context, now clock) (loop.Result, error) {
	layout, err := a.r.cfg.Layout(ctx)
	if err != nil {
		return loop.Result{}, fmt.Errorf("read the number of shards: %w", err)
	}
	rate, begin := a.rate()
	if begin {
		a.shard, a.owners, a.cursor = 0, false, task.ScanCursor{}
	}
	a.skipped, a.failed = skippedShards{}, 0
	count := min(page, rate)
	// An empty page counts too, since its keys of other shards cost time. A small index is walked at most once in a pass.
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

// skip skips the present set if the index failed there. It returns the error if ctx has ended or too many sets in a row
// failed.
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

// shardError says that the index failed in the present shard.
func (a *auditIndex) shardError(err error) error {
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
		a.endRound()
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
		return 0, a.shardError(fmt.Errorf("scan: %w", err))
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
	layout, err := a.r.layoutFor(ctx, "audited")
	if err != nil {
		return err
	}
	var unlike []task.Task
	for i, t := range tasks {
		row, found := rows[t.ID]
		if !found || row.Shard != t.Shard || !task.SameQueue(row, t) || task.ScoreOf(row) != scores[i] || !layout.Keeps(scores[i].RunAt(), now()) {
			unlike = append(unlike, t)
		}
	}
	return a.r.mendUnlessMoving(ctx, "audited", unlike, now, allowAbsent)
}

// remove removes a member that can't be read, and so has no row.
func (a *auditIndex) remove(ctx context.Context, e task.Entry) error {
	removed, err := a.r.index.Remove(ctx, a.shard, e)
	if err != nil {
		return a.shardError(fmt.Errorf("remove an unreadable member: %w", err))
	}
	if removed {
		a.r.metrics.drift.WithLabelValues(unreadableKind, driftExtra).Inc()
		a.r.alarm(ctx, "unreadable", 1)
		a.r.report(ctx, "unreadable", 1)
	}
	return nil
}
