package console

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// driftRows reads the rows for checkDrift.
type driftRows interface {
	Now(ctx context.Context, q sqlx.QueryerContext) (time.Time, error)
	Get(ctx context.Context, q sqlx.QueryerContext, ids []task.ID) ([]task.Task, error)
	Pending(ctx context.Context, from, to time.Time, after protocol.Cursor, limit int) ([]task.Task, error)
}

// driftIndex reads the index for checkDrift.
type driftIndex interface {
	Standings(ctx context.Context, tasks []task.Task) ([]protocol.Standing, error)
	ScanDue(ctx context.Context, shard int, cursor protocol.ScanCursor, count int64) ([]protocol.Entry, protocol.ScanCursor, error)
	ScanOwners(ctx context.Context, shard int, cursor protocol.ScanCursor, count int64) ([]protocol.Entry, protocol.ScanCursor, error)
}

// Drift counts the differences between the rows and the index.
type Drift struct {
	Missing int64 // pending rows that lack their exact entry in one of the two sets
	Extra   int64 // entries of either set whose row is absent, has ended, or has another score
}

const (
	driftPage      = 1000                                    // rows, or entries, in one call
	maxDifferences = 100_000                                 // that are kept, about 50 MB: an empty Redis differs in all rows
	recheckDelay   = 2 * time.Second                         // before a difference is read again
	maxHintFlight  = protocol.MaxLead + 500*time.Millisecond // how long before its run time a row's hint may be under way
)

var farFuture = time.UnixMilli(math.MaxInt64) // after every run time, even of a row that another program wrote

// Drift compares all rows with all entries of the index, and counts the differences. It only reads, and locks nothing: the
// daemon repairs. Tasks that are written and fired meanwhile make short-lived differences. So a difference counts only if it
// still exists two seconds later, for a row of the same version.
func (c *Console) Drift(ctx context.Context) (Drift, error) {
	if c.index == nil {
		return Drift{}, errNoIndex
	}
	layout, err := c.store.Layout(ctx)
	if err != nil {
		return Drift{}, err
	}
	return checkDrift(ctx, c.store, c.index, layout)
}

func checkDrift(ctx context.Context, rows driftRows, index driftIndex, layout protocol.Layout) (Drift, error) {
	c := &driftCheck{store: rows, index: index, layout: layout}
	if err := c.compareRows(ctx); err != nil {
		return Drift{}, err
	}
	if err := c.compareEntries(ctx, layout.Polled()); err != nil {
		return Drift{}, err
	}
	if err := c.recheck(ctx); err != nil {
		return Drift{}, err
	}
	return c.drift, nil
}

type driftCheck struct {
	store  driftRows
	index  driftIndex
	layout protocol.Layout

	missing []task.Task // differences that are to be read again
	extra   []extraEntry
	drift   Drift
}

// extraEntry is an entry that differs from its row.
type extraEntry struct {
	shard int
	owned bool // of an owner's set
	protocol.Entry
}

func (e extraEntry) task() task.Task {
	return task.Task{ID: e.ID, Kind: e.Kind, Queue: e.Queue, Owner: e.Owner, Subject: e.Subject, OrderKey: e.OrderKey, Shard: e.shard}
}

// compareRows reads the pending rows up to the horizon.
func (c *driftCheck) compareRows(ctx context.Context) error {
	end := farFuture
	if c.layout.Partial {
		now, err := c.store.Now(ctx, nil)
		if err != nil {
			return err
		}
		end = now.Add(c.layout.Horizon)
	}
	var after protocol.Cursor
	for {
		rows, err := c.store.Pending(ctx, time.Time{}, end, after, driftPage)
		if err != nil {
			return err
		}
		differing, err := c.differing(ctx, rows)
		if err != nil {
			return err
		}
		if err := c.keep(ctx, differing, nil); err != nil {
			return err
		}
		if len(rows) < driftPage {
			return nil
		}
		last := rows[len(rows)-1]
		after = protocol.Cursor{At: last.RunAt, ID: last.ID}
	}
}

// keep keeps differences until they are read again: at once if there are many.
func (c *driftCheck) keep(ctx context.Context, missing []task.Task, extra []extraEntry) error {
	c.missing, c.extra = append(c.missing, missing...), append(c.extra, extra...)
	if len(c.missing)+len(c.extra) < maxDifferences {
		return nil
	}
	return c.recheck(ctx)
}

// differing returns the rows whose entries differ. A row at its run time needs no due entry: its hint is under way. If
// the hint was lost, the row counts as overdue.
func (c *driftCheck) differing(ctx context.Context, rows []task.Task) ([]task.Task, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	now, err := c.store.Now(ctx, nil)
	if err != nil {
		return nil, err
	}
	seen, err := c.index.Standings(ctx, rows)
	if err != nil {
		return nil, fmt.Errorf("read %d standings: %w", len(rows), err)
	}
	var out []task.Task
	for i, row := range rows {
		score := protocol.ScoreOf(row)
		hintSent := row.RunAt.Before(now.Add(maxHintFlight)) && seen[i].Due == protocol.NoScore
		if seen[i].Owner != score || seen[i].Due != score && !hintSent {
			out = append(out, row)
		}
	}
	return out, nil
}

// compareEntries reads both sets of every shard.
func (c *driftCheck) compareEntries(ctx context.Context, shards int) error {
	for shard := range shards {
		for _, owned := range []bool{false, true} {
			if err := c.compareSet(ctx, shard, owned); err != nil {
				return fmt.Errorf("scan shard %d: %w", shard, err)
			}
		}
	}
	return nil
}

func (c *driftCheck) compareSet(ctx context.Context, shard int, owned bool) error {
	scan := c.index.ScanDue
	if owned {
		scan = c.index.ScanOwners
	}
	for cursor := (protocol.ScanCursor{}); ; {
		entries, next, err := scan(ctx, shard, cursor, driftPage)
		if err != nil {
			return err
		}
		found := make([]extraEntry, len(entries))
		for i, e := range entries {
			found[i] = extraEntry{shard: shard, owned: owned, Entry: e}
		}
		found, err = c.contradicted(ctx, found)
		if err != nil {
			return err
		}
		if err := c.keep(ctx, nil, found); err != nil {
			return err
		}
		if cursor = next; next.Done() {
			return nil
		}
	}
}

// contradicted returns the entries that differ from their rows.
func (c *driftCheck) contradicted(ctx context.Context, entries []extraEntry) ([]extraEntry, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	ids := make([]task.ID, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
	}
	rows, err := c.store.Get(ctx, nil, ids)
	if err != nil {
		return nil, err
	}
	now, err := c.store.Now(ctx, nil)
	if err != nil {
		return nil, err
	}
	var out []extraEntry
	byID := protocol.ByID(rows)
	for _, e := range entries {
		row, found := byID[e.ID]
		if e.Err != nil || !found || !c.asksFor(row, e, now) {
			out = append(out, e)
		}
	}
	return out, nil
}

// asksFor reports whether the row asks for the entry. While rows are moved to other shards, an entry in the shard before is no
// difference: no list is read there.
func (c *driftCheck) asksFor(row task.Task, e extraEntry, now time.Time) bool {
	return protocol.ScoreOf(row) == e.Score && protocol.SameQueue(row, e.task()) && (row.Shard == e.shard || c.layout.Changing()) &&
		c.layout.Keeps(e.Score.RunAt(), now)
}

// recheck waits, reads the differences again, and counts those that remain.
func (c *driftCheck) recheck(ctx context.Context) error {
	if len(c.missing)+len(c.extra) == 0 {
		return nil
	}
	loop.Sleep(ctx, recheckDelay)
	for part := range slices.Chunk(c.missing, driftPage) {
		still, err := c.stillMissing(ctx, part)
		if err != nil {
			return err
		}
		c.drift.Missing += still
	}
	for part := range slices.Chunk(c.extra, driftPage) {
		still, err := c.stillExtra(ctx, part)
		if err != nil {
			return err
		}
		c.drift.Extra += still
	}
	c.missing, c.extra = nil, nil
	return nil
}

// stillMissing counts the rows that still differ, at the same version.
func (c *driftCheck) stillMissing(ctx context.Context, before []task.Task) (int64, error) {
	was := protocol.ByID(before)
	same, err := c.atVersion(ctx, before, was)
	if err != nil {
		return 0, err
	}
	differing, err := c.differing(ctx, same)
	if err != nil || len(differing) == 0 {
		return 0, err
	}
	// The index was read after the rows, and some of thousands of rows may have changed in between, as after Redis lost its
	// memory.
	still, err := c.atVersion(ctx, differing, was)
	return int64(len(still)), err
}

// atVersion reads the tasks' rows that are still pending at the version that they had.
func (c *driftCheck) atVersion(ctx context.Context, tasks []task.Task, was map[task.ID]task.Task) ([]task.Task, error) {
	rows, err := c.store.Get(ctx, nil, protocol.IDs(tasks))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(rows, func(row task.Task) bool {
		return row.State != task.Pending || row.Version != was[row.ID].Version
	}), nil
}

// stillExtra counts the entries that are unchanged and still differ from their rows.
func (c *driftCheck) stillExtra(ctx context.Context, before []extraEntry) (int64, error) {
	contradicted, err := c.contradicted(ctx, before)
	if err != nil || len(contradicted) == 0 {
		return 0, err
	}
	var n int64
	tasks := make([]task.Task, 0, len(contradicted))
	readable := make([]extraEntry, 0, len(contradicted))
	for _, e := range contradicted {
		if e.Err != nil {
			n++
			continue
		}
		tasks, readable = append(tasks, e.task()), append(readable, e)
	}
	if len(tasks) == 0 {
		return n, nil
	}
	seen, err := c.index.Standings(ctx, tasks)
	if err != nil {
		return 0, err
	}
	for i, e := range readable {
		stands := seen[i].Due
		if e.owned {
			stands = seen[i].Owner
		}
		if stands == e.Score {
			n++
		}
	}
	return n, nil
}
