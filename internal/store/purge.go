package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// purgeOverlap is how far behind the newest purgeable row each purge looks again, for rows that a long transaction
// committed late under an earlier time.
const purgeOverlap = 10 * time.Minute

// Purge deletes up to limit finished rows that have not changed since before, oldest first, and gives their number;
// fewer than limit mean that none is left.
func (s *Store) Purge(ctx context.Context, before time.Time, limit int) (int, error) {
	s.purgeMu.Lock()
	defer s.purgeMu.Unlock()
	// Tasks due in months stay at the old end of the index and would be read through by each call: so begin where the
	// last call stopped. What is behind that place can only be pending, and moves ahead of it when it ends.
	after := s.purged
	if overlap := before.Add(-purgeOverlap); after.At.After(overlap) {
		after = task.Cursor{At: overlap}
	}
	found, last, err := s.finished(ctx, before, after, limit)
	if err != nil {
		return 0, fmt.Errorf("find finished tasks: %w", err)
	}
	if len(found) == 0 {
		s.purged = task.Cursor{At: before}
		return 0, nil
	}
	// Not locked so far: another purge may delete them first, and an operator may have woken a dead one.
	if _, err = s.db.ExecContext(ctx, "DELETE FROM duetime_tasks WHERE id IN ("+marks(len(found))+") AND state <> 0 AND updated_at < ?",
		append(idArgs(found), before.UnixMilli())...); err != nil {
		return 0, fmt.Errorf("delete %d finished tasks: %w", len(found), err)
	}
	s.purged = last
	return len(found), nil
}

func (s *Store) finished(ctx context.Context, before time.Time, after task.Cursor, limit int) ([]task.ID, task.Cursor, error) {
	text, args := endedByChange.sql(s.dialect, window{time.Time{}, before, after, limit})
	r, err := s.db.QueryxContext(ctx, "SELECT id, updated_at FROM duetime_tasks"+text, args...)
	if err != nil {
		return nil, after, err
	}
	defer func() { _ = r.Close() }() // reading to the end closed it, and an earlier error says more
	return readCursors(r)
}

func readCursors(r *sqlx.Rows) (ids []task.ID, last task.Cursor, err error) {
	for r.Next() {
		var b []byte
		var at int64
		if err := r.Scan(&b, &at); err != nil {
			return nil, last, err
		}
		if last.ID, err = task.IDFromBytes(b); err != nil {
			return nil, last, err
		}
		last.At = fromMs(at)
		ids = append(ids, last.ID)
	}
	return ids, last, r.Err()
}
