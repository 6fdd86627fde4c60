package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// Oldest returns by queue the earliest run time of the pending rows that are due, and the database's time. It leaves out what is
// late by intent: rows of queues that are paused or wait for their limit, and of kinds that none of a queue's workers handles. It
// reads as many rows as Waiting.
func (s *Store) Oldest(ctx context.Context) (oldest map[string]time.Time, now time.Time, err error) {
	late, err := s.lateByIntent(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	waiting, _, now, err := s.Waiting(ctx, 0, oldestBehind)
	if err != nil {
		return nil, time.Time{}, err
	}
	handlers := s.handlers(ctx)
	oldest = map[string]time.Time{}
	for _, w := range waiting {
		before, found := oldest[w.Queue]
		if (!found || w.Oldest.Before(before)) && !slices.Contains(late, w.Queue) && !handlers.lack(w.Queue, w.Kind) {
			oldest[w.Queue] = w.Oldest
		}
	}
	return oldest, now, nil
}

// oldestBehind is how long Oldest looks behind crowds: it is asked at each scrape.
const oldestBehind = 300 * time.Millisecond

// Count returns the number of rows in a state. It reads an index entry for each row: seconds for tens of millions.
func (s *Store) Count(ctx context.Context, state task.State) (int64, error) {
	n, err := s.countDue(ctx, s.db, " WHERE state = ?", int8(state))
	if err != nil {
		return 0, fmt.Errorf("count %v tasks: %w", state, err)
	}
	return n, nil
}

// Counts returns the number of rows in each state; states without rows have 0.
func (s *Store) Counts(ctx context.Context) (map[task.State]int64, error) {
	db, done, err := s.patient()
	if err != nil {
		return nil, err
	}
	defer done()
	counts, err := counts[task.State](ctx, db, "SELECT state, COUNT(*) FROM duetime_tasks GROUP BY state")
	if err != nil {
		return nil, fmt.Errorf("count tasks by state: %w", err)
	}
	for st := task.Pending; st <= task.Dead; st++ {
		counts[st] += 0
	}
	return counts, nil
}

// Overdue counts the pending rows whose run_at passed more than grace ago, on the database's clock.
func (s *Store) Overdue(ctx context.Context, grace time.Duration) (int64, error) {
	db, done, err := s.patient()
	if err != nil {
		return 0, err
	}
	defer done()
	n, err := s.countDue(ctx, db, " WHERE state = 0 AND run_at < "+s.dialect.now()+" - ?", grace.Milliseconds())
	if err != nil {
		return 0, fmt.Errorf("count overdue tasks: %w", err)
	}
	return n, nil
}

// lateByIntent returns the queues whose tasks are late by intent: paused ones, and those where due tasks wait for a limit.
func (s *Store) lateByIntent(ctx context.Context) ([]string, error) {
	paused, err := s.Paused(ctx)
	if err != nil {
		return nil, err
	}
	limited, err := s.limitedQueues(ctx)
	return slices.AppendSeq(limited, maps.Keys(paused)), err
}

// limitedQueues returns the queues where due tasks wait for a limit.
func (s *Store) limitedQueues(ctx context.Context) (limited []string, err error) {
	shared, err := s.Limits(ctx)
	if err != nil || len(shared) == 0 {
		return nil, err
	}
	now, err := s.Clock(ctx)
	for queue, st := range shared {
		if st.Limited(now) {
			limited = append(limited, queue)
		}
	}
	return limited, err
}

// Stuck counts the pending rows that have been due for longer than this, on the database's clock, and whose queues are
// neither paused nor limited. A worker that runs a task changes its run time or ends it, so no worker has run these.
func (s *Store) Stuck(ctx context.Context, longer time.Duration) (int64, error) {
	late, err := s.lateByIntent(ctx)
	if err != nil {
		return 0, err
	}
	where, args := " WHERE state = 0 AND run_at < "+s.dialect.now()+" - ?", []any{longer.Milliseconds()}
	if len(late) > 0 { // without this condition the server reads only the index
		where += " AND queue NOT IN (" + marks(len(late)) + ")"
	}
	args = append(args, anys(late)...)
	db, done, err := s.patient()
	if err != nil {
		return 0, err
	}
	defer done()
	n, err := s.countDue(ctx, db, where, args...)
	if err != nil {
		return 0, fmt.Errorf("count stuck tasks: %w", err)
	}
	return n, nil
}

// countDue counts rows by the index of run times.
func (s *Store) countDue(ctx context.Context, db *sqlx.DB, where string, args ...any) (n int64, err error) {
	err = db.GetContext(ctx, &n, "SELECT COUNT(*) FROM duetime_tasks"+s.dialect.Force("duetime_tasks_due")+where, args...)
	return n, err
}

// Unhandled is the number of pending tasks of a queue and kind that wait for a worker of their kind.
type Unhandled struct {
	Queue, Kind string
	Tasks       int64
}

// unhandledSpan is longer than a task waits for a worker of its kind before it is tried again.
const unhandledSpan = time.Hour

// Unhandled counts the tasks that wait for a worker of their kind, the largest numbers first. Either a worker has put them off,
// or they are due and no hint has brought them to one, as while Kafka is away. It reads the first limit pending tasks by run
// time, or those of the next hour if limit is 0.
func (s *Store) Unhandled(ctx context.Context, limit int) ([]Unhandled, error) {
	db, done, err := s.patient()
	if err != nil {
		return nil, err
	}
	defer done()
	handlers := s.handlers(ctx)
	from := "SELECT queue, kind, run_at, last_error FROM duetime_tasks" + s.dialect.Force("duetime_tasks_due") + " WHERE state = 0"
	args := []any{transition.Unhandled + "%", transition.Unknown + "%"}
	if limit > 0 {
		floor, err := s.floorMs(ctx)
		if err != nil {
			return nil, err
		}
		from += " AND run_at >= ? ORDER BY run_at, id LIMIT ?"
		args = append(args, floor, limit)
	} else {
		from += " AND run_at < " + s.dialect.now() + " + ?"
		args = append(args, unhandledSpan.Milliseconds())
	}
	var all []Unhandled
	var u Unhandled
	var putOff, due bool
	err = forEach(ctx, db, "SELECT queue, kind, last_error LIKE ? OR last_error LIKE ? AS put_off, run_at <= "+s.dialect.now()+" AS due, COUNT(*)"+
		" FROM ("+from+") AS waiting GROUP BY queue, kind, put_off, due ORDER BY queue, kind", args,
		[]any{&u.Queue, &u.Kind, &putOff, &due, &u.Tasks}, func() {
			waits := putOff || due && handlers.lack(u.Queue, u.Kind)
			switch last := len(all) - 1; {
			case waits && last >= 0 && all[last].Queue == u.Queue && all[last].Kind == u.Kind:
				all[last].Tasks += u.Tasks
			case waits:
				all = append(all, u)
			}
		})
	if err != nil {
		return nil, fmt.Errorf("count unhandled tasks: %w", err)
	}
	slices.SortStableFunc(all, func(a, b Unhandled) int { return -cmp.Compare(a.Tasks, b.Tasks) })
	return all, nil
}

// counts runs a query that returns a key and a number in each row.
func counts[K comparable](ctx context.Context, db *sqlx.DB, query string, args ...any) (map[K]int64, error) {
	var key K
	var n int64
	m := map[K]int64{}
	err := forEach(ctx, db, query, args, []any{&key, &n}, func() { m[key] = n })
	return m, err
}
