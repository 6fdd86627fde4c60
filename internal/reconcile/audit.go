package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/pkg/task"
)

// auditRows walks all pending rows in time order, AuditRate a second, and mends what the index does not hold.
type auditRows struct {
	r     *Reconciler
	after task.Cursor
}

func (a *auditRows) pass(ctx context.Context, now clock) (loop.Result, error) {
	for done := 0; done < a.r.cfg.AuditRate; done += page {
		rows, err := a.r.store.Pending(ctx, time.Time{}, farFuture, a.after, page)
		if err != nil {
			return loop.Result{}, err
		}
		if err := a.r.mendUnlike(ctx, "audited", rows, now); err != nil {
			return loop.Result{}, err
		}
		if len(rows) < page {
			a.after = task.Cursor{}
			return loop.Result{}, nil
		}
		a.after = behind(rows)
	}
	return loop.Result{}, nil
}

// auditIndex walks all members of all sets, AuditRate a pass, and mends those that the rows contradict: entries of
// finished, purged or never committed tasks, and members that can't be read.
type auditIndex struct {
	r      *Reconciler
	shard  int
	owners bool // the owners' sets of the shard, after its due set
	cursor uint64
}

// emptyPage is what a page of a scan costs at least, in members: its keys may all belong to others.
const emptyPage = page / 20

func (a *auditIndex) pass(ctx context.Context, now clock) (loop.Result, error) {
	shards, err := a.r.cfg.Shards(ctx)
	if err != nil {
		return loop.Result{}, fmt.Errorf("read the number of shards: %w", err)
	}
	sets := 0 // walked to their end in this pass: a small index is walked once, not round and round
	for done := 0; done < a.r.cfg.AuditRate && sets < 2*shards; {
		n, ended, err := a.page(ctx, shards, now)
		if err != nil {
			return loop.Result{}, err
		}
		done += max(n, emptyPage)
		if ended {
			sets++
		}
	}
	return loop.Result{}, nil
}

// page looks at one page of one set and moves on.
func (a *auditIndex) page(ctx context.Context, shards int, now clock) (n int, ended bool, err error) {
	if a.shard >= shards {
		a.shard, a.owners, a.cursor = 0, false, 0
	}
	scan := a.r.index.ScanDue
	if a.owners {
		scan = a.r.index.ScanOwners
	}
	entries, next, err := scan(ctx, a.shard, a.cursor, page)
	if err != nil {
		return 0, false, fmt.Errorf("scan shard %d: %w", a.shard, err)
	}
	for some := range slices.Chunk(entries, page) {
		if err := a.check(ctx, some, now); err != nil {
			return 0, false, err
		}
	}
	a.cursor = next
	if next != 0 {
		return len(entries), false, nil
	}
	if a.owners {
		a.shard++
	}
	a.owners = !a.owners
	return len(entries), true, nil
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
		if row, found := rows[t.ID]; !found || row.Shard != t.Shard || task.ScoreOf(row) != scores[i] {
			unlike = append(unlike, t)
		}
	}
	return a.r.settle(ctx, "audited", unlike, now, leaveFlying)
}

// remove takes out a member that can't be read: no row can be found for it.
func (a *auditIndex) remove(ctx context.Context, e task.Entry) error {
	gone, err := a.r.index.Remove(ctx, a.shard, e)
	if err != nil {
		return fmt.Errorf("remove an unreadable member of shard %d: %w", a.shard, err)
	}
	if gone {
		a.r.report(ctx, "unreadable", 1)
	}
	return nil
}
