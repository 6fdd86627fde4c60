package store

import (
	"context"
	"fmt"
	"time"
)

// maxOldest bounds how many due rows Waiting reads.
const maxOldest = 20_000

// Waiting is what is due of a queue and a kind, and not done.
type Waiting struct {
	Queue, Kind string
	Due         int64 // tasks
	Late        int64 // of these, for longer than grace
	Oldest      time.Time
}

// Waiting reads what is due by queue and kind, and the database's time. It reads the 20,000 rows that are due for longest, from the floor
// (floor.go) on: beyond them numbers are lower bounds, and a queue whose rows are all younger is left out.
func (s *Store) Waiting(ctx context.Context, grace time.Duration) (all []Waiting, now time.Time, err error) {
	floor, err := s.floorMs(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	var ms int64
	var w Waiting
	if err = s.db.QueryRowxContext(ctx, "SELECT "+s.dialect.now()).Scan(&ms); err == nil {
		err = forEach(ctx, s.db, "SELECT queue, kind, COUNT(*), SUM(run_at < ?), MIN(run_at) FROM (SELECT run_at, queue, kind FROM duetime_tasks"+
			s.dialect.Force("duetime_tasks_due")+" WHERE state = 0 AND run_at >= ? AND run_at <= ? ORDER BY run_at LIMIT ?) AS earliest"+
			" GROUP BY queue, kind ORDER BY queue, kind", []any{ms - grace.Milliseconds(), floor, ms, maxOldest},
			[]any{&w.Queue, &w.Kind, &w.Due, &w.Late, unixMs{&w.Oldest}}, func() { all = append(all, w) })
	}
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read what is due: %w", err)
	}
	return all, fromMs(ms), nil
}
