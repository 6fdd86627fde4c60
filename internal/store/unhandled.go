package store

import (
	"context"
	"fmt"

	"github.com/duetime/duetime/pkg/task"
)

// Unhandled is how many pending tasks of a queue and kind wait for a worker that knows the kind.
type Unhandled struct {
	Queue, Kind string
	Tasks       int64
}

// Unhandled counts the tasks that wait for a worker which knows their kind, most first: of the among whose next try comes
// first, or of all pending ones if among is 0, which reads them all.
func (s *Store) Unhandled(ctx context.Context, among int) ([]Unhandled, error) {
	from := "SELECT queue, kind, last_error FROM duetime_tasks" + s.dialect.force("duetime_tasks_due") + " WHERE state = 0"
	args := []any{task.Unhandled + "%", task.Unknown + "%"}
	if among > 0 {
		from += " ORDER BY run_at, id LIMIT ?"
		args = append([]any{among}, args...)
	}
	r, err := s.db.QueryxContext(ctx, "SELECT queue, kind, COUNT(*) AS tasks FROM ("+from+") AS waiting"+
		" WHERE last_error LIKE ? OR last_error LIKE ? GROUP BY queue, kind ORDER BY tasks DESC, queue, kind", args...)
	if err != nil {
		return nil, fmt.Errorf("count unhandled tasks: %w", err)
	}
	defer func() { _ = r.Close() }() // reading to the end closed it, and an earlier error says more
	var all []Unhandled
	for r.Next() {
		var u Unhandled
		if err := r.Scan(&u.Queue, &u.Kind, &u.Tasks); err != nil {
			return nil, fmt.Errorf("count unhandled tasks: %w", err)
		}
		all = append(all, u)
	}
	return all, r.Err()
}
