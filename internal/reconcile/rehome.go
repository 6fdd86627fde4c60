package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// While tasks run, a run of the pass moves a small page and then sleeps, so that due tasks wait less for the servers. Otherwise
// it moves several pages side by side. Between two runs the pass looks whether a newer daemon leads.
const (
	rehomePages = 8  // of a run
	rehomeMoves = 3  // of pages, side by side
	rehomeSleep = 2  // times what the small page took
	rehomeSmall = 50 // rows of a page while tasks run: MySQL and Redis are held up for as little as this takes
)

// auditAfter is how long after a change of shards, or the start of a Redis server, a term that begins has everything audited: the
// daemon that saw it may have died before its audits were through.
const auditAfter = 24 * time.Hour

// rehome moves rows to their owners' places while the number of shards changes.
//
//  1. Wait until every process has read the new layout: until then lists may be read from the old place alone. From then on
//     lists come from the database, until the change is over.
//  2. Walk the pending rows, near-due first, then the dead rows, in laps. Move the misplaced rows of each page: see rehomeRows.
//  3. A lap without misplaced rows may have overlooked rows of transactions that were open. So after another wait a last lap
//     compares every pending row with the index as well: a daemon that died between two steps may have left entries out.
//  4. If the last lap has found no misplaced row either, the change is over. The audits then look at everything, and remove
//     entries that were left in old places. Whoever has ended the change may not know it, or may die: so a run that finds the
//     change over asks for the audits too, and for auditAfter each term does.
//
// Rows that come later all the same, of a long transaction or of another program that knows an old number, are moved by the
// sweeps that meet them: see rehomeMisplaced.
type rehome struct {
	layout   protocol.Layout // of the change that is going on
	since    time.Time       // when this term first saw the change
	rows     walk            // of the lap
	dead     bool            // the lap has come to the dead rows
	dirty    bool            // the lap has found misplaced rows, or could not look everywhere
	last     bool            // this is the last lap, unless it finds something
	lastFrom time.Time       // before this moment the last lap does not begin
	looked   bool            // this term has looked whether a change has just ended
}

func (m *rehome) pass(ctx context.Context, s *sweep) (loop.Result, error) {
	l, err := s.cfg.Layout(ctx)
	if err != nil {
		return loop.Result{}, fmt.Errorf("read the layout: %w", err)
	}
	if !l.Changing() {
		s.metrics.toRehome.Set(0)
		return loop.Result{}, m.auditEnded(ctx, s)
	}
	if l.Generation != m.layout.Generation {
		*m = rehome{since: s.now(), looked: true}
		s.cfg.Logger.InfoContext(ctx, "shards change", "from", l.ShardsFrom, "n", l.Shards)
	}
	m.layout = l
	s.metrics.toRehome.Set(float64(max(l.ToMove-l.Moved, 0)))
	if l.Paused || s.now().Before(m.since.Add(s.cfg.Settle)) || s.now().Before(m.lastFrom) {
		return loop.Result{}, nil
	}
	if l.ToMove == 0 {
		if err := m.count(ctx, s); err != nil {
			return loop.Result{}, err
		}
	}
	busy, err := s.busy(ctx, s.now)
	if err != nil {
		return loop.Result{}, err
	}
	began := time.Now()
	over, err := m.pages(ctx, s, busy)
	switch {
	case errors.Is(err, protocol.ErrLayoutChanged):
		return loop.Result{More: true}, nil
	case err != nil || over || s.index.err() != nil:
		return loop.Result{}, err
	case busy:
		return loop.Result{Next: rehomeSleep * time.Since(began)}, nil
	}
	return loop.Result{More: true}, nil
}

// auditEnded has everything audited if a change has ended since the last run, or shortly before this term.
func (m *rehome) auditEnded(ctx context.Context, s *sweep) error {
	if m.layout.Changing() {
		m.over(ctx, s)
	}
	if m.looked {
		return nil
	}
	at, err := s.store.ShardsChanged(ctx)
	if err != nil {
		return err
	}
	if m.looked = true; s.now().Sub(at) < auditAfter {
		s.auditAll()
	}
	return nil
}

// over has everything audited after the end of the change: entries may be left in old places.
func (m *rehome) over(ctx context.Context, s *sweep) {
	s.cfg.Logger.InfoContext(ctx, "shards changed", "from", m.layout.ShardsFrom, "n", m.layout.Shards)
	m.layout = protocol.Layout{}
	s.metrics.toRehome.Set(0)
	s.auditAll()
}

// count records how many rows will move, by the number of rows and the part of owners whose place moves.
func (m *rehome) count(ctx context.Context, s *sweep) error {
	n, err := s.store.CountPlaced(ctx)
	if err != nil {
		return err
	}
	return s.store.SetToMove(ctx, m.layout, int64(float64(n)*m.layout.MovingShare()))
}

// pages looks at the next pages of a lap; over is true if the lap, or the change, has ended.
func (m *rehome) pages(ctx context.Context, s *sweep, busy bool) (over bool, err error) {
	size, n := page, rehomePages
	if busy {
		size, n = rehomeSmall, 1
	}
	floor, err := s.store.Floor(ctx)
	if err != nil {
		return false, err
	}
	read := s.pending(floor, farFuture, size)
	if m.dead {
		read = func(ctx context.Context, after protocol.Cursor) (rows []task.Task, next protocol.Cursor, err error) {
			if rows, err = s.store.DeadPage(ctx, after, size); len(rows) == size {
				next = protocol.Cursor{At: rows[size-1].RunAt, ID: rows[size-1].ID}
			}
			return rows, next, err
		}
	}
	var found atomic.Bool
	var moves errgroup.Group
	moves.SetLimit(rehomeMoves)
	over, err = m.rows.pages(ctx, s, read, upTo(n), func(rows []task.Task) error {
		moves.Go(func() error { return m.move(ctx, s, rows, &found) })
		return nil
	})
	err = cmp.Or(moves.Wait(), err)
	m.dirty = m.dirty || found.Load() || err != nil || s.index.err() != nil
	if err != nil || !over {
		return false, err
	}
	if m.dead = !m.dead; m.dead {
		return false, nil
	}
	return true, m.endLap(ctx, s)
}

// move moves the misplaced ones of a page's rows. In the last lap it compares the others with the index.
func (m *rehome) move(ctx context.Context, s *sweep, rows []task.Task, found *atomic.Bool) error {
	var misplaced, placed []task.Task
	for _, row := range rows {
		if m.layout.Misplaced(row) {
			misplaced = append(misplaced, row)
		} else {
			placed = append(placed, row)
		}
	}
	if len(misplaced) > 0 {
		found.Store(true)
		if _, err := s.rehomeRows(ctx, m.layout, misplaced); err != nil {
			return err
		}
	}
	if m.last && !m.dead {
		return s.mendUnlike(ctx, "rehomed", placed)
	}
	return nil
}

// endLap decides what follows a lap: another one, the last one, or the end of the change.
func (m *rehome) endLap(ctx context.Context, s *sweep) error {
	dirty, last := m.dirty, m.last
	m.dirty, m.last = false, !dirty
	switch {
	case dirty:
		return nil
	case !last:
		m.lastFrom = s.now().Add(s.cfg.Settle)
		return nil
	}
	m.last = false // in case the change can't be ended
	line := protocol.Event{
		At: s.now(), Name: protocol.EventShards, Actor: s.cfg.Name,
		Detail: fmt.Sprintf("%d to %d: over", m.layout.ShardsFrom, m.layout.Shards),
	}
	if err := s.store.EndChange(ctx, m.layout, line); err != nil {
		return err
	}
	m.over(ctx, s)
	return nil
}

// rehomeRows moves rows to their owners' places, and returns those that it has moved. Each step may be repeated, and a daemon
// may die after each:
//
//  1. Read what the old place holds.
//  2. Write the rows' shards. Now the new place is right. The old one still wakes the tasks: it is polled.
//  3. Put the entries into the new place. A row whose hint may be under way is not put into the due set if it was absent from
//     the old one.
//  4. Remove from the old places exactly what step 1 has read there; if one holds something else, compare them. Then read the rows
//     again. If one has changed since step 2, compare both its places: its own put or drop may have come before ours.
//
// A daemon that dies after step 2 leaves rows without entries: the lookahead puts them before they are due, the last lap in any
// case. One that dies after step 3 leaves extra entries: an extra hint is harmless, and no list is read there.
func (s *sweep) rehomeRows(ctx context.Context, l protocol.Layout, rows []task.Task) ([]task.Task, error) {
	rows, seen, err := s.index.Standings(ctx, rows)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	ids := make([]task.ID, len(rows))
	before, from := map[task.ID]protocol.Standing{}, map[task.ID]int{}
	for i, row := range rows {
		ids[i], before[row.ID], from[row.ID] = row.ID, seen[i], row.Shard
	}
	s.justMoved.take(ids)
	rehomed, err := s.store.Rehome(ctx, l, ids)
	if err != nil {
		return nil, err
	}
	s.metrics.rehomed.Add(float64(len(rehomed)))
	pending := slices.DeleteFunc(slices.Clone(rehomed), func(row task.Task) bool { return row.State != task.Pending })
	if err := s.putRehomed(ctx, l, pending, before); err != nil {
		return rehomed, err
	}
	pending = s.index.without(pending) // an entry that is not in the new place must stay in the old one
	exact, err := s.leaveOld(ctx, pending, from, before)
	if err != nil {
		return rehomed, err
	}
	_, differing, err := s.reread(ctx, pending)
	if err != nil {
		return rehomed, err
	}
	old := differing
	if !exact {
		old = pending
	}
	for _, row := range old {
		row.Shard = from[row.ID]
		differing = append(differing, row)
	}
	return rehomed, s.mendUnlessMoving(ctx, "rehomed", differing, putAlways)
}

// leaveOld removes what rows had in their old places, and reports whether it still stood so in each.
func (s *sweep) leaveOld(ctx context.Context, rows []task.Task, from map[task.ID]int, before map[task.ID]protocol.Standing) (bool, error) {
	var removals []protocol.Repair
	for _, row := range rows {
		if seen := before[row.ID]; seen != nowhere {
			row.Shard = from[row.ID]
			removals = append(removals, protocol.Repair{Task: row, Seen: seen, Right: nowhere})
		}
	}
	reached, n, err := s.index.Repair(ctx, removals)
	s.report(ctx, "rehomed", n)
	return n == len(reached), err
}

// putRehomed puts rows into their new places, but for those beyond the horizon.
func (s *sweep) putRehomed(ctx context.Context, l protocol.Layout, rows []task.Task, before map[task.ID]protocol.Standing) error {
	var absent, sent []task.Task // sent: the hint may be under way
	for _, row := range rows {
		switch seen := before[row.ID]; {
		case seen == nowhere && s.unfed(l, row):
		case seen.Due == protocol.NoScore && seen.Owner != protocol.NoScore && s.mayBeUnderWay(row):
			sent = append(sent, row)
		default:
			absent = append(absent, row)
		}
	}
	if err := s.mendUnlessMoving(ctx, "rehomed", sent, allowAbsent); err != nil {
		return err
	}
	absent, otherwise, err := s.index.Fill(ctx, absent)
	if err != nil {
		return err
	}
	s.report(ctx, "rehomed", len(absent)-len(otherwise))
	return s.mendUnlessMoving(ctx, "rehomed", otherwise, putAlways)
}

// rehomeMisplaced moves misplaced rows that a sweep has met, unless the number of shards is changing: then it is the pass's work.
// A transaction that was open for long, and a program that knows an old number of shards, insert such rows at any time.
// rehomeMisplaced returns the rows that it has not moved.
func (s *sweep) rehomeMisplaced(ctx context.Context, l protocol.Layout, rows []task.Task) ([]task.Task, error) {
	if l.Changing() || !slices.ContainsFunc(rows, l.Misplaced) {
		return rows, nil
	}
	misplaced := slices.DeleteFunc(slices.Clone(rows), func(row task.Task) bool { return !l.Misplaced(row) })
	rehomed, err := s.rehomeRows(ctx, l, misplaced)
	if errors.Is(err, protocol.ErrLayoutChanged) {
		return rows, nil
	}
	moved := map[task.ID]bool{}
	for _, row := range rehomed {
		moved[row.ID] = true
	}
	return slices.DeleteFunc(slices.Clone(rows), func(row task.Task) bool { return moved[row.ID] }), err
}

// dropElsewhere removes entries of changed rows from places where the rows do not stand, while the number of shards changes:
// a writer that read its row before the row was moved puts into the old place, after the pass has removed the entry there.
func (s *sweep) dropElsewhere(ctx context.Context, rows []task.Task) error {
	l, err := s.store.RecentLayout(ctx)
	if err != nil || !l.Changing() {
		return err
	}
	var elsewhere []task.Task
	for _, row := range rows {
		for _, shard := range l.Standing(row.Owner) {
			if shard != row.Shard {
				row.Shard = shard
				elsewhere = append(elsewhere, row)
			}
		}
	}
	return s.mendUnlessMoving(ctx, "changed", elsewhere, putAlways)
}

// justMoved are the rows that were moved to another shard just now: other passes may see them between two steps, which is no
// drift.
type justMoved struct {
	mu    sync.Mutex
	at    time.Time              // when the last page was taken
	pages []map[task.ID]struct{} // the last justMovedPages ones
}

const (
	justMovedPages = 4 * rehomeMoves  // before these, the steps of a page have ended
	justMovedTime  = 30 * time.Second // after which they have ended, too
)

func (h *justMoved) take(ids []task.ID) {
	taken := make(map[task.ID]struct{}, len(ids))
	for _, id := range ids {
		taken[id] = struct{}{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pages = append(h.pages[max(0, len(h.pages)-justMovedPages+1):], taken)
	h.at = time.Now()
}

func (h *justMoved) has(id task.ID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.at) > justMovedTime {
		return false
	}
	return slices.ContainsFunc(h.pages, func(taken map[task.ID]struct{}) bool { _, ok := taken[id]; return ok })
}
