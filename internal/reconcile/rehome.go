package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/pkg/task"
)

const rehomePages = 4 // of a run; between two runs the pass looks whether a newer daemon leads, and sleeps

// rehome moves rows to their owners' places while the number of shards changes.
//
//  1. Wait until every process has read the new layout: until then lists may be read from the old place alone. From then on
//     lists come from the database, until the change is over.
//  2. Walk the pending rows, near-due first, then the dead rows, in laps. Move the misplaced rows of each page: see rehomeRows.
//  3. A lap without misplaced rows may have overlooked rows of transactions that were open. So after another wait a last lap
//     compares every pending row with the index as well: a daemon that died between two steps may have left entries out.
//  4. If the last lap has found no misplaced row either, the change is over. The audits then look at everything, and remove
//     entries that were left in old places.
//
// Rows that come later all the same, of a long transaction or of another program that knows an old number, are moved by the
// sweeps that meet them: see rehomeStrays.
type rehome struct {
	r        *Reconciler
	layout   task.Layout // of the change that is going on
	since    time.Time   // when this term first saw the change
	after    task.Cursor // where the next page begins
	dead     bool        // the lap has come to the dead rows
	dirty    bool        // the lap has found misplaced rows, or could not look everywhere
	last     bool        // this is the last lap, unless it finds something
	lastFrom time.Time   // before this moment the last lap does not begin
	looked   int         // rows, by the present pass
}

func (m *rehome) pass(ctx context.Context, now clock) (loop.Result, error) {
	m.looked = 0
	l, err := m.r.cfg.Layout(ctx)
	if err != nil {
		return loop.Result{}, fmt.Errorf("read the layout: %w", err)
	}
	if !l.Changing() {
		m.r.metrics.toRehome.Set(0)
		m.layout = task.Layout{}
		return loop.Result{}, nil
	}
	if l.Generation != m.layout.Generation {
		*m = rehome{r: m.r, since: now()}
		m.r.cfg.Logger.InfoContext(ctx, "shards change", "from", l.ShardsFrom, "n", l.Shards)
	}
	m.layout = l
	m.r.metrics.toRehome.Set(float64(max(l.ToMove-l.Moved, 0)))
	if l.Paused || now().Before(m.since.Add(m.r.cfg.Settle)) || now().Before(m.lastFrom) {
		return loop.Result{}, nil
	}
	if l.ToMove == 0 {
		if err := m.count(ctx); err != nil {
			return loop.Result{}, err
		}
	}
	var skipped skippedShards
	for range rehomePages {
		over, err := m.page(ctx, now, &skipped)
		switch {
		case errors.Is(err, task.ErrLayoutChanged):
			return loop.Result{More: true}, nil
		case err != nil:
			return loop.Result{}, err
		case over || m.r.filling.Load():
			return loop.Result{}, skipped.err()
		}
	}
	return loop.Result{More: len(skipped.shards) == 0}, skipped.err()
}

// count records how many rows will move, by the number of rows and the part of owners whose place moves.
func (m *rehome) count(ctx context.Context) error {
	n, err := m.r.store.CountPlaced(ctx)
	if err != nil {
		return err
	}
	return m.r.store.SetToMove(ctx, m.layout, int64(float64(n)*m.layout.MovingShare()))
}

// page looks at the next page of a lap. over is true if the lap, or the change, has ended.
func (m *rehome) page(ctx context.Context, now clock, skipped *skippedShards) (over bool, err error) {
	rows, err := m.read(ctx)
	if err != nil {
		return false, err
	}
	m.looked += len(rows)
	lastOfState := len(rows) < page
	if !lastOfState {
		m.after = behind(rows)
	}
	misplaced := func(row task.Task) bool { return m.layout.Misplaced(row) }
	if strays := slices.DeleteFunc(slices.Clone(rows), func(row task.Task) bool { return !misplaced(row) }); len(strays) > 0 {
		m.dirty = true
		_, err := m.r.rehomeRows(ctx, m.layout, strays, now)
		if err := m.collect(skipped, err, strays); err != nil {
			return false, err
		}
	}
	if m.last && !m.dead {
		rows = slices.DeleteFunc(rows, misplaced)
		if err := m.collect(skipped, m.r.mendUnlike(ctx, "rehomed", rows, now), rows); err != nil {
			return false, err
		}
	}
	if !lastOfState {
		return false, nil
	}
	m.after = task.Cursor{}
	if m.dead = !m.dead; m.dead {
		return false, nil
	}
	return true, m.endLap(ctx, now)
}

// collect records shards that failed: their rows are left to another lap.
func (m *rehome) collect(skipped *skippedShards, err error, rows []task.Task) error {
	if err != nil {
		m.dirty = true
	}
	return skipped.collect(err, rows)
}

func (m *rehome) read(ctx context.Context) ([]task.Task, error) {
	if m.dead {
		return m.r.store.DeadPage(ctx, m.after, page)
	}
	return m.r.store.Pending(ctx, time.Time{}, farFuture, m.after, page)
}

// endLap decides what follows a lap: another one, the last one, or the end of the change.
func (m *rehome) endLap(ctx context.Context, now clock) error {
	dirty, last := m.dirty, m.last
	m.dirty, m.last = false, !dirty
	switch {
	case dirty:
		return nil
	case !last:
		m.lastFrom = now().Add(m.r.cfg.Settle)
		return nil
	}
	m.last = false // in case the change can't be ended
	line := task.Event{
		At: now(), Name: task.EventShards, Actor: m.r.cfg.Name,
		Detail: fmt.Sprintf("%d to %d: over", m.layout.ShardsFrom, m.layout.Shards),
	}
	if err := m.r.store.EndChange(ctx, m.layout, line); err != nil {
		return err
	}
	m.r.metrics.toRehome.Set(0)
	m.r.cfg.Logger.InfoContext(ctx, "shards changed", "from", m.layout.ShardsFrom, "n", m.layout.Shards)
	m.r.alarms.Add(1) // entries may be left in old places
	loop.Rouse(m.r.wakeRows)
	loop.Rouse(m.r.wakeIndex)
	return nil
}

// rehomeRows moves rows to their owners' places, and returns those that it has moved. Each step may be repeated, and a daemon
// may die after each:
//
//  1. Read what the old place holds.
//  2. Write the rows' shards. Now the new place is right. The old one still wakes the tasks: it is polled.
//  3. Put the entries into the new place, and compare with the rows once more: their own put or drop may have come before.
//     A row whose hint may be under way is not put into the due set if it was absent from the old one.
//  4. Remove the entries from the old place, if the rows are still elsewhere.
//
// A daemon that dies after step 2 leaves rows without entries: the lookahead puts them before they are due, the last lap in any
// case. One that dies after step 3 leaves extra entries: an extra hint is harmless, and no list is read there.
func (r *Reconciler) rehomeRows(ctx context.Context, l task.Layout, rows []task.Task, now clock) ([]task.Task, error) {
	var skipped skippedShards
	seen, err := r.index.Standings(ctx, rows)
	if err := skipped.collect(err, nil); err != nil {
		return nil, fmt.Errorf("read %d standings: %w", len(rows), err)
	}
	var ids []task.ID
	before, from := map[task.ID]task.Standing{}, map[task.ID]int{}
	for i, row := range rows {
		if !skipped.has(row) {
			ids = append(ids, row.ID)
			before[row.ID], from[row.ID] = seen[i], row.Shard
		}
	}
	if len(ids) == 0 {
		return nil, skipped.err()
	}
	r.inHand.take(ids)
	rehomed, err := r.store.Rehome(ctx, l, ids)
	if err != nil {
		return nil, err
	}
	r.metrics.rehomed.Add(float64(len(rehomed)))
	pending := slices.DeleteFunc(slices.Clone(rehomed), func(row task.Task) bool { return row.State != task.Pending })
	if err := skipped.collect(r.putRehomed(ctx, l, pending, before, now), nil); err != nil {
		return rehomed, err
	}
	old := slices.DeleteFunc(slices.Clone(pending), skipped.has) // an entry that is not in the new place must stay in the old one
	for i := range old {
		old[i].Shard = from[old[i].ID]
	}
	old = slices.DeleteFunc(old, skipped.has)
	if err := skipped.collect(r.mendUnlessMoving(ctx, "rehomed", old, now, putAlways), nil); err != nil {
		return rehomed, err
	}
	return rehomed, skipped.err()
}

// putRehomed puts rows into their new places, but for those beyond the horizon.
func (r *Reconciler) putRehomed(ctx context.Context, l task.Layout, rows []task.Task, before map[task.ID]task.Standing, now clock) error {
	var absent, sent []task.Task // sent: the hint may be under way
	for _, row := range rows {
		switch s := before[row.ID]; {
		case s == nowhere && r.unfed(l, row):
		case s.Due == task.NoScore && s.Owner != task.NoScore && mayBeUnderWay(row, now):
			sent = append(sent, row)
		default:
			absent = append(absent, row)
		}
	}
	var skipped skippedShards
	if err := skipped.collect(r.mendUnlessMoving(ctx, "rehomed", sent, now, allowAbsent), nil); err != nil {
		return err
	}
	if len(absent) == 0 {
		return skipped.err()
	}
	otherwise, err := r.index.Fill(ctx, absent)
	if err := skipped.collect(err, nil); err != nil {
		return fmt.Errorf("fill %d entries: %w", len(absent), err)
	}
	absent = slices.DeleteFunc(absent, skipped.has)
	r.report(ctx, "rehomed", len(absent)-len(otherwise))
	moved, err := r.moved(ctx, absent)
	if err != nil {
		return err
	}
	if err := skipped.collect(r.mendUnlessMoving(ctx, "rehomed", append(otherwise, moved...), now, putAlways), nil); err != nil {
		return err
	}
	return skipped.err()
}

// rehomeStrays moves misplaced rows that a sweep has met, unless the number of shards is changing: then it is the pass's work.
// A transaction that was open for long, and a program that knows an old number of shards, insert such rows at any time.
// rehomeStrays returns all rows, the moved ones with their new shards.
func (r *Reconciler) rehomeStrays(ctx context.Context, l task.Layout, rows []task.Task, now clock) ([]task.Task, error) {
	if l.Changing() || !slices.ContainsFunc(rows, l.Misplaced) {
		return rows, nil
	}
	strays := slices.DeleteFunc(slices.Clone(rows), func(row task.Task) bool { return !l.Misplaced(row) })
	rehomed, err := r.rehomeRows(ctx, l, strays, now)
	if errors.Is(err, task.ErrLayoutChanged) {
		return rows, nil
	}
	byID := make(map[task.ID]task.Task, len(rehomed))
	for _, row := range rehomed {
		byID[row.ID] = row
	}
	rows = slices.Clone(rows)
	for i, row := range rows {
		if now, ok := byID[row.ID]; ok {
			rows[i] = now
		}
	}
	return rows, err
}

// dropElsewhere removes entries of changed rows from places where the rows do not stand, while the number of shards changes:
// a writer that read its row before the row was moved puts into the old place, after the pass has removed the entry there.
func (r *Reconciler) dropElsewhere(ctx context.Context, rows []task.Task, now clock) error {
	l, err := r.store.RecentLayout(ctx)
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
	if len(elsewhere) == 0 {
		return nil
	}
	var skipped skippedShards
	seen, err := r.index.Standings(ctx, elsewhere)
	if err := skipped.collect(err, nil); err != nil {
		return fmt.Errorf("read %d standings: %w", len(elsewhere), err)
	}
	var extra []task.Task
	for i, t := range elsewhere {
		if !skipped.has(t) && seen[i] != nowhere {
			extra = append(extra, t)
		}
	}
	if err := skipped.collect(r.mendUnlessMoving(ctx, "changed", extra, now, putAlways), nil); err != nil {
		return err
	}
	return skipped.err()
}

// inHand are the rows that were moved to another shard just now: other passes may see them between two steps, which is no
// drift.
type inHand struct {
	mu          sync.Mutex
	at          time.Time            // when the last page was taken
	now, before map[task.ID]struct{} // of the last two pages
}

const inHandTime = 30 * time.Second // after which the steps of a page have ended

func (h *inHand) take(ids []task.ID) {
	taken := make(map[task.ID]struct{}, len(ids))
	for _, id := range ids {
		taken[id] = struct{}{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.now) < page { // small pages are kept together
		maps.Copy(taken, h.now)
	} else {
		h.before = h.now
	}
	h.now, h.at = taken, time.Now()
}

func (h *inHand) has(id task.ID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.at) > inHandTime {
		return false
	}
	_, now := h.now[id]
	_, before := h.before[id]
	return now || before
}
