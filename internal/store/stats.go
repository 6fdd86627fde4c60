package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
)

// Stats are figures over all rows, and over those of a window.
type Stats struct {
	States map[string]int64 // all rows by the state's name; states without rows have 0
	Kinds  map[string]int64 // rows that changed within the window, by kind
	Fired  int64            // rows that were done within it
	// Lag of these: finished_at - max(due_at, created_at); zero when there are none.
	LagP50, LagP99, LagMax time.Duration
}

// Stats reads an index entry of each row, and all that changed within the last window; without a window (0) it reads the
// whole table, which takes seconds for millions of rows. It locks nothing.
func (s *Store) Stats(ctx context.Context, window time.Duration) (Stats, error) {
	st := Stats{States: map[string]int64{}}
	byState, err := s.Counts(ctx)
	if err != nil {
		return st, err
	}
	for state, n := range byState {
		st.States[state.String()] = n
	}
	db, done, err := s.patient()
	if err != nil {
		return st, err
	}
	defer done()
	changed := func(list, and string) (string, []any) {
		return unionEnded(func(t tasksTable) (string, []any) { return s.changedSQL(t, list, and, window) })
	}
	text, args := changed("kind", "")
	if st.Kinds, err = counts[string](ctx, db, "SELECT kind, COUNT(*) FROM ("+text+") AS changed GROUP BY kind", args...); err != nil {
		return st, fmt.Errorf("count tasks by kind: %w", err)
	}
	text, args = changed(lagOf+" AS behind", " AND state = 1 AND finished_at IS NOT NULL")
	if st.Fired, err = readLags(ctx, db, &st, " FROM ("+text+") AS done", args...); err != nil {
		return st, fmt.Errorf("measure lag: %w", err)
	}
	return st, nil
}

const lagOf = "finished_at - CASE WHEN created_at > due_at THEN created_at ELSE due_at END"

// changedSQL reads from the rows of a table that changed within the window; 0 is all rows. The last change of an ended row is its end.
func (s *Store) changedSQL(t tasksTable, list, and string, window time.Duration) (string, []any) {
	switch {
	case window == 0:
		return "SELECT " + list + " FROM " + t.as() + " WHERE 1 = 1" + and, nil
	case t == liveTasks:
		return "SELECT " + list + byChange.from(s.dialect) + " WHERE updated_at >= " + s.dialect.now() + " - ?" + and, []any{window.Milliseconds()}
	default:
		return "SELECT " + list + t.from(s.dialect, "PRIMARY") + " WHERE state IN (1, 2) AND finished_at >= " + s.dialect.now() + " - ?" + and,
			[]any{window.Milliseconds()}
	}
}

// readLags computes percentiles by nearest rank from a histogram of milliseconds, which is sorted and is read only up to
// the 99th percentile. It returns the number of rows that from selects.
func readLags(ctx context.Context, db *sqlx.DB, st *Stats, from string, args ...any) (n int64, err error) {
	var highest int64
	err = db.QueryRowxContext(ctx, SelectUntil(ctx)+"COUNT(*), COALESCE(MAX(behind), 0)"+from, args...).Scan(&n, &highest)
	if err != nil || n == 0 {
		return n, err
	}
	st.LagMax = time.Duration(highest) * time.Millisecond
	st.LagP50, st.LagP99 = st.LagMax, st.LagMax // in case rows are purged before the next statement
	r, err := db.QueryxContext(ctx, SelectUntil(ctx)+"behind, COUNT(*)"+from+" GROUP BY behind ORDER BY behind", args...)
	if err != nil {
		return n, err
	}
	defer func() { _ = r.Close() }() // reading to the end closed it, and an earlier error says more
	rank50, rank99, seen := (n*50+99)/100, (n*99+99)/100, int64(0)
	for seen < rank99 && r.Next() {
		var lag, rows int64
		if err := r.Scan(&lag, &rows); err != nil {
			return n, err
		}
		if seen < rank50 && seen+rows >= rank50 {
			st.LagP50 = time.Duration(lag) * time.Millisecond
		}
		if seen += rows; seen >= rank99 {
			st.LagP99 = time.Duration(lag) * time.Millisecond
		}
	}
	return n, r.Err()
}
