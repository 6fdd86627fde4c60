package store

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// A change of the number of shards is one update of the layout. From then on new rows go to their owner's new place, and the
// daemon rehomes the rows that are elsewhere. The layout's generation says which change a statement is about: each statement
// of an older change does nothing.

// PollShards makes the shards 0 to n-1 polled, before rows go there.
func (s *Store) PollShards(ctx context.Context, n int) error {
	_, err := s.db.ExecContext(ctx, "UPDATE duetime_layout SET shards_ever = ? WHERE only_row = 1 AND shards_ever < ?", n, n)
	if err != nil {
		return fmt.Errorf("poll %d shards: %w", n, err)
	}
	return nil
}

// BeginChange changes the number of shards from what l says, whose change must have ended. It returns protocol.ErrLayoutChanged if
// the layout is no longer l.
func (s *Store) BeginChange(ctx context.Context, q sqlx.ExtContext, l protocol.Layout, shards int) error {
	return s.setCounts(ctx, q, l, l.Shards, shards)
}

// CancelChange turns the change of l round: rows go back to where they came from. It returns protocol.ErrLayoutChanged if the layout
// is no longer l.
func (s *Store) CancelChange(ctx context.Context, q sqlx.ExtContext, l protocol.Layout) error {
	return s.setCounts(ctx, q, l, l.Shards, l.ShardsFrom)
}

func (s *Store) setCounts(ctx context.Context, q sqlx.ExtContext, l protocol.Layout, from, to int) error {
	return s.updateLayout(ctx, q, l, "generation = generation + 1, paused = 0, moved = 0, to_move = 0, shards_from = ?, shards = ?, "+
		"shards_ever = CASE WHEN shards_ever < ? THEN ? ELSE shards_ever END", from, to, to, to)
}

// PauseChange pauses the change of l, or resumes it; false if it was so before. It returns protocol.ErrLayoutChanged if another change
// has begun.
func (s *Store) PauseChange(ctx context.Context, q sqlx.ExtContext, l protocol.Layout, paused bool) (bool, error) {
	r, err := q.ExecContext(ctx, "UPDATE duetime_layout SET paused = ? WHERE only_row = 1 AND generation = ? AND shards_from > 0 AND paused <> ?",
		paused, l.Generation, paused)
	if err != nil {
		return false, fmt.Errorf("pause the change of shards: %w", err)
	}
	if n, err := r.RowsAffected(); n == 1 || err != nil {
		return n == 1, err
	}
	now, err := s.readLayout(ctx, q)
	if err == nil && (now.Generation != l.Generation || !now.Changing()) {
		err = protocol.ErrLayoutChanged
	}
	return false, err
}

// SetToMove records how many rows the change of l has to move.
func (s *Store) SetToMove(ctx context.Context, l protocol.Layout, n int64) error {
	_, err := s.db.ExecContext(ctx, "UPDATE duetime_layout SET to_move = ? WHERE only_row = 1 AND generation = ?", n, l.Generation)
	if err != nil {
		return fmt.Errorf("record the number of rows to move: %w", err)
	}
	return nil
}

// EndChange ends the change of l, all of whose rows are in their place, and writes a line of the history with it. It returns
// protocol.ErrLayoutChanged if the layout is no longer l, or the change is paused.
func (s *Store) EndChange(ctx context.Context, l protocol.Layout, line protocol.Event) error {
	tx, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	if err := s.updateLayout(ctx, tx, l, "shards_from = 0, to_move = moved"); err != nil {
		return err
	}
	if err := s.Record(ctx, tx, []protocol.Event{line}); err != nil {
		return err
	}
	return tx.Commit()
}

// updateLayout updates the layout if it is still l but for its progress; set must change the row.
func (s *Store) updateLayout(ctx context.Context, q sqlx.ExtContext, l protocol.Layout, set string, args ...any) error {
	args = append(args, l.Generation, l.ShardsFrom, l.Paused)
	r, err := q.ExecContext(ctx, "UPDATE duetime_layout SET "+set+" WHERE only_row = 1 AND generation = ? AND shards_from = ? AND paused = ?", args...)
	if err != nil {
		return fmt.Errorf("change the layout: %w", err)
	}
	n, err := r.RowsAffected()
	if err == nil && n != 1 {
		return protocol.ErrLayoutChanged
	}
	return err
}

// CountPlaced counts the rows that need a place in the index: pending ones, and dead ones, which may be retried.
func (s *Store) CountPlaced(ctx context.Context) (int64, error) {
	return s.countDue(ctx, "pending and dead tasks", " WHERE state IN (0, 3)")
}

// DeadPage is Pending for dead rows.
func (s *Store) DeadPage(ctx context.Context, after protocol.Cursor, limit int) ([]task.Task, error) {
	tasks, err := s.page(ctx, deadByRunAt, window{to: fromMs(math.MaxInt64), after: after, limit: limit})
	if err != nil {
		return nil, fmt.Errorf("read dead tasks: %w", err)
	}
	return tasks, nil
}

// Rehome moves those of the rows that are misplaced by l to their owner's place, in a transaction of its own with the
// layout's progress. It returns the rows with their new shard. It leaves rows that another transaction holds. Their versions
// stay: nothing about the tasks has changed. It returns protocol.ErrLayoutChanged, and has moved nothing, if the layout is no longer l
// or the change is paused.
func (s *Store) Rehome(ctx context.Context, l protocol.Layout, ids []task.ID) (rehomed []task.Task, err error) {
	tx, err := s.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	for part := range slices.Chunk(sorted(ids), task.MaxPerCall) {
		rows, err := s.read(ctx, tx, entry.scanner(), "SELECT "+entry.list+" FROM duetime_tasks"+s.dialect.Force("PRIMARY")+
			" WHERE id IN ("+marks(len(part))+") ORDER BY id"+s.dialect.skipLocked(), idArgs(part))
		if err != nil {
			return nil, fmt.Errorf("lock %d rows to rehome: %w", len(part), err)
		}
		rows = slices.DeleteFunc(rows, func(row task.Task) bool { return !l.Misplaced(row) })
		for i := range rows {
			rows[i].Shard = l.Place(rows[i].Owner)
		}
		if err := s.saveShards(ctx, tx, l, rows); err != nil {
			return nil, fmt.Errorf("rehome %d rows: %w", len(rows), err)
		}
		rehomed = append(rehomed, rows...)
	}
	if len(rehomed) == 0 {
		return nil, nil
	}
	// The layout's row is locked until the commit: no other change can begin in between.
	if err := s.updateLayout(ctx, tx, l, "moved = moved + ?", len(rehomed)); err != nil {
		return nil, err
	}
	if err := tx.Commit(); err != nil {
		return nil, fmt.Errorf("rehome %d rows: %w", len(rehomed), err)
	}
	return rehomed, nil
}

// saveShards writes the rows' shards, which are their owners' places, and nothing else.
func (s *Store) saveShards(ctx context.Context, q sqlx.ExtContext, l protocol.Layout, rows []task.Task) error {
	if place := s.dialect.place(); place != "" && len(rows) > 0 {
		_, err := q.ExecContext(ctx, "UPDATE duetime_tasks"+s.dialect.Force("PRIMARY")+" SET shard = "+place+" WHERE id IN ("+marks(len(rows))+")",
			append([]any{l.Shards}, idArgs(protocol.IDs(rows))...)...)
		return err
	}
	for part := range slices.Chunk(rows, writeChunk) {
		args := make([]any, 0, 3*len(part))
		for i := range part {
			args = append(args, part[i].ID[:], part[i].Shard)
		}
		_, err := q.ExecContext(ctx, "UPDATE duetime_tasks"+s.dialect.Force("PRIMARY")+" SET shard = CASE id"+
			strings.Repeat(" WHEN ? THEN ?", len(part))+" END WHERE id IN ("+marks(len(part))+")", append(args, idArgs(protocol.IDs(part))...)...)
		if err != nil {
			return err
		}
	}
	return nil
}
