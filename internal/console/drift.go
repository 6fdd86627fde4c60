package console

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// DriftRows is what CheckDrift reads of the database.
type DriftRows interface {
	Now(ctx context.Context, q sqlx.QueryerContext) (time.Time, error)
	Get(ctx context.Context, q sqlx.QueryerContext, ids []task.ID) ([]task.Task, error)
	Pending(ctx context.Context, from, to time.Time, after task.Cursor, limit int) ([]task.Task, error)
}

// DriftIndex is what CheckDrift reads of the index.
type DriftIndex interface {
	Standings(ctx context.Context, tasks []task.Task) ([]task.Standing, error)
	ScanDue(ctx context.Context, shard int, cursor task.ScanCursor, count int64) ([]task.Entry, task.ScanCursor, error)
	ScanOwners(ctx context.Context, shard int, cursor task.ScanCursor, count int64) ([]task.Entry, task.ScanCursor, error)
}

// Drift is how the index differs from the truth.
type Drift struct {
	Missing int64 // pending rows that don't stand in both sets with exactly their score
	Extra   int64 // entries of either set whose row is absent, has ended, or has another score
}

const (
	driftPage    = 1000                                // rows, or entries, looked at by one call
	recheckDelay = 2 * time.Second                     // before a difference is looked at a second time
	flight       = task.MaxLead + 500*time.Millisecond // ahead of its moment, a row's hint may be under way
)

var farFuture = time.UnixMilli(math.MaxInt64) // beyond every due time, also of a row that another program wrote

// CheckDrift compares the truth with the index, all rows and all entries of the layout's shards, and counts what differs. It
// only reads: mending is reconcile's. Differences come and go while tasks are written and fired, so only one that still
// stands two seconds later, of a row at the same version, is counted.
func CheckDrift(ctx context.Context, rows DriftRows, index DriftIndex, layout task.Layout) (Drift, error) {
	c := driftCheck{store: rows, index: index}
	missing, err := c.missing(ctx)
	if err != nil {
		return Drift{}, err
	}
	extra, err := c.extra(ctx, layout.Polled())
	if err != nil {
		return Drift{}, err
	}
	if len(missing)+len(extra) == 0 {
		return Drift{}, nil
	}
	select {
	case <-ctx.Done():
		return Drift{}, ctx.Err()
	case <-time.After(recheckDelay):
	}
	return c.recheck(ctx, missing, extra)
}

type driftCheck struct {
	store DriftRows
	index DriftIndex
}

// extraEntry is an entry that its row contradicts.
type extraEntry struct {
	shard int
	owned bool // of an owner's set
	task.Entry
}

func (e extraEntry) task() task.Task {
	return task.Task{ID: e.ID, Kind: e.Kind, Queue: e.Queue, Owner: e.Owner, Subject: e.Subject, Shard: e.shard}
}

// missing walks the pending rows.
func (c driftCheck) missing(ctx context.Context) ([]task.Task, error) {
	var out []task.Task
	var after task.Cursor
	for {
		rows, err := c.store.Pending(ctx, time.Time{}, farFuture, after, driftPage)
		if err != nil {
			return nil, err
		}
		unlike, err := c.unlike(ctx, rows)
		if err != nil {
			return nil, err
		}
		out = append(out, unlike...)
		if len(rows) < driftPage {
			return out, nil
		}
		last := rows[len(rows)-1]
		after = task.Cursor{At: last.RunAt, ID: last.ID}
	}
}

// unlike keeps the rows that the index does not hold as they are. A row whose moment has come is right without a due
// entry: its hint is under way, and if it stays there the row is overdue.
func (c driftCheck) unlike(ctx context.Context, rows []task.Task) ([]task.Task, error) {
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
		score := task.ScoreOf(row)
		flying := row.RunAt.Before(now.Add(flight)) && seen[i].Due == task.NoScore
		if seen[i].Owner != score || seen[i].Due != score && !flying {
			out = append(out, row)
		}
	}
	return out, nil
}

// extra walks both sets of every shard.
func (c driftCheck) extra(ctx context.Context, shards int) ([]extraEntry, error) {
	var out []extraEntry
	for shard := range shards {
		for _, owned := range []bool{false, true} {
			found, err := c.extraOf(ctx, shard, owned)
			if err != nil {
				return nil, fmt.Errorf("scan shard %d: %w", shard, err)
			}
			out = append(out, found...)
		}
	}
	return out, nil
}

func (c driftCheck) extraOf(ctx context.Context, shard int, owned bool) ([]extraEntry, error) {
	scan := c.index.ScanDue
	if owned {
		scan = c.index.ScanOwners
	}
	var out []extraEntry
	for cursor := (task.ScanCursor{}); ; {
		entries, next, err := scan(ctx, shard, cursor, driftPage)
		if err != nil {
			return nil, err
		}
		found := make([]extraEntry, len(entries))
		for i, e := range entries {
			found[i] = extraEntry{shard: shard, owned: owned, Entry: e}
		}
		found, err = c.contradicted(ctx, found)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
		if cursor = next; next.Done() {
			return out, nil
		}
	}
}

// contradicted keeps the entries that their rows contradict.
func (c driftCheck) contradicted(ctx context.Context, entries []extraEntry) ([]extraEntry, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	rows, err := c.rows(ctx, entries)
	if err != nil {
		return nil, err
	}
	var out []extraEntry
	for _, e := range entries {
		row, found := rows[e.ID]
		if e.Err != nil || !found || task.ScoreOf(row) != e.Score || !task.SameQueue(row, e.task()) {
			out = append(out, e)
		}
	}
	return out, nil
}

func (c driftCheck) rows(ctx context.Context, entries []extraEntry) (map[task.ID]task.Task, error) {
	ids := make([]task.ID, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
	}
	byID := make(map[task.ID]task.Task, len(ids))
	for part := range slices.Chunk(ids, driftPage) {
		rows, err := c.store.Get(ctx, nil, part)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			byID[row.ID] = row
		}
	}
	return byID, nil
}

// recheck looks a second time at what differed, and counts what still does.
func (c driftCheck) recheck(ctx context.Context, missing []task.Task, extra []extraEntry) (Drift, error) {
	var d Drift
	for part := range slices.Chunk(missing, driftPage) {
		still, err := c.stillMissing(ctx, part)
		if err != nil {
			return d, err
		}
		d.Missing += still
	}
	for part := range slices.Chunk(extra, driftPage) {
		still, err := c.stillExtra(ctx, part)
		if err != nil {
			return d, err
		}
		d.Extra += still
	}
	return d, nil
}

// stillMissing counts the rows that are at the version at which they differed before, and differ still.
func (c driftCheck) stillMissing(ctx context.Context, before []task.Task) (int64, error) {
	versions := make(map[task.ID]int64, len(before))
	ids := make([]task.ID, len(before))
	for i, t := range before {
		versions[t.ID], ids[i] = t.Version, t.ID
	}
	same, err := c.atVersion(ctx, ids, versions)
	if err != nil {
		return 0, err
	}
	unlike, err := c.unlike(ctx, same)
	if err != nil || len(unlike) == 0 {
		return 0, err
	}
	// The index was read after the rows: of thousands, as after a lost memory, some have been moved in between.
	ids = ids[:0]
	for _, t := range unlike {
		ids = append(ids, t.ID)
	}
	still, err := c.atVersion(ctx, ids, versions)
	return int64(len(still)), err
}

// atVersion reads those of the rows that are pending at the given version.
func (c driftCheck) atVersion(ctx context.Context, ids []task.ID, versions map[task.ID]int64) ([]task.Task, error) {
	rows, err := c.store.Get(ctx, nil, ids)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(rows, func(row task.Task) bool {
		return row.State != task.Pending || row.Version != versions[row.ID]
	}), nil
}

// stillExtra counts the entries that stand as they stood and are contradicted still.
func (c driftCheck) stillExtra(ctx context.Context, before []extraEntry) (int64, error) {
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
