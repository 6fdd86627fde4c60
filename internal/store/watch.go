package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// Oldest returns the earliest next try of all pending rows, zero when there is none, and the database's time of that same
// statement. It reads one entry of an index.
func (s *Store) Oldest(ctx context.Context) (oldest, now time.Time, err error) {
	var at sql.NullInt64
	var ms int64
	err = s.db.QueryRowxContext(ctx, "SELECT "+s.dialect.now()+", (SELECT run_at FROM duetime_tasks"+
		s.dialect.force("duetime_tasks_due")+" WHERE state = 0 ORDER BY run_at LIMIT 1)").Scan(&ms, &at)
	if err != nil {
		return time.Time{}, time.Time{}, fmt.Errorf("read the oldest pending task: %w", err)
	}
	if at.Valid {
		oldest = fromMs(at.Int64)
	}
	return oldest, fromMs(ms), nil
}

// Count returns the number of rows in a state. It reads as many entries of an index: seconds for tens of millions.
func (s *Store) Count(ctx context.Context, state task.State) (int64, error) {
	var n int64
	err := s.db.QueryRowxContext(ctx, "SELECT COUNT(*) FROM duetime_tasks"+s.dialect.force("duetime_tasks_due")+
		" WHERE state = ?", int8(state)).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count %v tasks: %w", state, err)
	}
	return n, nil
}
