package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// auditIndex walks the members of all sets, and mends those that the rows contradict: entries of finished, purged or
// never committed tasks, and unreadable members. It skips a set that it can't read until the next round, or it would
// never reach the following sets.
type auditIndex struct {
	auditMode
	shard  int
	owners bool // the walk is in the shard's owner sets, which come after its due set
	cursor protocol.ScanCursor
}

func (a *auditIndex) pass(ctx context.Context, s *sweep) (loop.Result, error) {
	layout, err := s.cfg.Layout(ctx)
	if err != nil {
		return loop.Result{}, fmt.Errorf("read the number of shards: %w", err)
	}
	rate, begin := a.rate(s)
	if begin {
		a.shard, a.owners, a.cursor = 0, false, protocol.ScanCursor{}
	}
	count := min(page, rate)
	failed := 0 // pages in a row
	// An empty page counts too, since its keys of other shards cost time. A small index is walked at most once in a pass.
	for done, sets := 0, 0; done < rate && sets < 2*layout.Polled(); {
		n, err := a.page(ctx, s, count)
		shards, partial := protocol.FailedShards(err)
		if failed++; !partial {
			failed = 0
		}
		if err := s.index.skip(err); err != nil {
			return loop.Result{}, err
		}
		if ctx.Err() != nil || failed == maxFailedPages {
			return loop.Result{}, cmp.Or(shards[a.shard], ctx.Err())
		}
		done += max(n, count/20)
		if a.cursor.Done() || s.index.skips(a.shard) {
			sets++
			a.nextSet(layout.Polled())
		}
	}
	return a.next(s), nil
}

// shardError says that the index failed in the present shard.
func (a *auditIndex) shardError(err error) error {
	return &protocol.ShardsError{Shards: map[int]error{a.shard: err}}
}

// nextSet goes on to the next set.
func (a *auditIndex) nextSet(shards int) {
	if a.owners {
		a.shard++
	}
	a.owners, a.cursor = !a.owners, protocol.ScanCursor{}
	if a.shard >= shards {
		a.shard = 0
		a.endRound()
	}
}

// page looks at one page of the present set and moves the cursor.
func (a *auditIndex) page(ctx context.Context, s *sweep, count int) (n int, err error) {
	scan := s.index.ScanDue
	if a.owners {
		scan = s.index.ScanOwners
	}
	entries, next, err := scan(ctx, a.shard, a.cursor, int64(count))
	if err != nil {
		return 0, a.shardError(fmt.Errorf("scan: %w", err))
	}
	for some := range slices.Chunk(entries, page) {
		if err := a.check(ctx, s, some); err != nil {
			return 0, err
		}
	}
	a.cursor = next
	return len(entries), nil
}

// check mends the members that the rows contradict.
func (a *auditIndex) check(ctx context.Context, s *sweep, entries []protocol.Entry) error {
	var tasks []task.Task
	var scores []protocol.Score
	for _, e := range entries {
		if e.Err != nil {
			if err := a.remove(ctx, s, e); err != nil {
				return err
			}
			continue
		}
		scores = append(scores, e.Score)
		tasks = append(tasks, task.Task{
			ID: e.ID, Kind: e.Kind, Queue: e.Queue, Owner: e.Owner, Subject: e.Subject, OrderKey: e.OrderKey, Shard: a.shard,
		})
	}
	if len(tasks) == 0 {
		return nil
	}
	rows, err := s.rows(ctx, tasks)
	if err != nil {
		return err
	}
	layout, err := s.layoutFor(ctx, "audited")
	if err != nil {
		return err
	}
	var unlike []task.Task
	for i, t := range tasks {
		row, found := rows[t.ID]
		if !found || row.Shard != t.Shard || !protocol.SameQueue(row, t) || protocol.ScoreOf(row) != scores[i] || !layout.Keeps(scores[i].RunAt(), s.now()) {
			unlike = append(unlike, t)
		}
	}
	return s.mendUnlessMoving(ctx, "audited", unlike, allowAbsent)
}

// remove removes a member that can't be read, and so has no row.
func (a *auditIndex) remove(ctx context.Context, s *sweep, e protocol.Entry) error {
	removed, err := s.index.Remove(ctx, a.shard, e)
	if err != nil {
		return a.shardError(fmt.Errorf("remove an unreadable member: %w", err))
	}
	if removed {
		s.metrics.drift.WithLabelValues(unreadableKind, driftExtra).Inc()
		s.alarm(ctx, "unreadable", 1)
		s.report(ctx, "unreadable", 1)
	}
	return nil
}
