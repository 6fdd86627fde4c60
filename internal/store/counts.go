package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
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
	return s.countDue(ctx, state.String()+" tasks", " WHERE state = ?", int8(state))
}

// Counts returns the number of rows in each state; states without rows have 0.
func (s *Store) Counts(ctx context.Context) (map[task.State]int64, error) {
	db, done, err := s.patient()
	if err != nil {
		return nil, err
	}
	defer done()
	all := map[task.State]int64{task.Pending: 0, task.Done: 0, task.Cancelled: 0, task.Dead: 0}
	for _, t := range []tasksTable{liveTasks, endedTasks} {
		index := "duetime_tasks_due"
		if t == endedTasks {
			index = t.byID // it has the state too, and is the shortest
		}
		of, err := counts[task.State](ctx, db, SelectUntil(ctx)+"state, COUNT(*)"+t.from(s.dialect, index)+" GROUP BY state")
		if err != nil {
			return nil, fmt.Errorf("count tasks by state: %w", err)
		}
		for st, n := range of {
			all[st] += n
		}
	}
	return all, nil
}

// Overdue counts the pending rows whose run_at passed more than grace ago, on the database's clock.
func (s *Store) Overdue(ctx context.Context, grace time.Duration) (int64, error) {
	return s.countDue(ctx, "overdue tasks", " WHERE state = 0 AND run_at < "+s.dialect.now()+" - ?", grace.Milliseconds())
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
	return s.countDue(ctx, "stuck tasks", where, append(args, anys(late)...)...)
}

// countDue counts rows by the index of run times.
func (s *Store) countDue(ctx context.Context, what, where string, args ...any) (int64, error) {
	return s.count(ctx, what, SelectUntil(ctx)+"COUNT(*) FROM duetime_tasks"+s.dialect.Force("duetime_tasks_due")+where, args...)
}

// count runs a SELECT of a number, without a read timeout.
func (s *Store) count(ctx context.Context, what, text string, args ...any) (n int64, err error) {
	db, done, err := s.patient()
	if err != nil {
		return 0, err
	}
	defer done()
	if err := db.GetContext(ctx, &n, text, args...); err != nil {
		return 0, fmt.Errorf("count %s: %w", what, err)
	}
	return n, nil
}

// unhandledSpan is longer than a task waits for a worker of its kind before it is tried again.
const unhandledSpan = time.Hour

// Unhandled counts the tasks that wait for a worker of their kind, the largest numbers first. Either a worker has put them off,
// or they are due and no hint has brought them to one, as while Kafka is away. Of those that are due it counts what Waiting
// returned, of that time. Of the others it reads the next ones by run time.
func (s *Store) Unhandled(ctx context.Context, waiting []Waiting, at time.Time, next int) ([]protocol.Unhandled, error) {
	ahead, err := s.countPutOff(ctx, s.db, "> ? ORDER BY run_at, id LIMIT ?", at.UnixMilli(), next)
	if err != nil {
		return nil, err
	}
	return s.unhandled(ctx, slices.Concat(waiting, ahead)), nil
}

// AllUnhandled is Unhandled among all that is due in an hour.
func (s *Store) AllUnhandled(ctx context.Context) ([]protocol.Unhandled, error) {
	db, done, err := s.patient()
	if err != nil {
		return nil, err
	}
	defer done()
	all, err := s.countPutOff(ctx, db, "< "+s.dialect.now()+" + ?", unhandledSpan.Milliseconds())
	if err != nil {
		return nil, err
	}
	return s.unhandled(ctx, all), nil
}

// countPutOff counts pending tasks whose run time is in a range: those that are due, and those that a worker has put off.
func (s *Store) countPutOff(ctx context.Context, db *sqlx.DB, within string, args ...any) (all []Waiting, err error) {
	var w Waiting
	var due bool
	err = forEach(ctx, db, SelectUntil(ctx)+"queue, kind, due, COUNT(*), SUM(put_off) FROM (SELECT queue, kind, run_at <= "+s.dialect.now()+" AS due, "+
		putOff+" FROM duetime_tasks"+s.dialect.Force("duetime_tasks_due")+" WHERE state = 0 AND run_at "+within+") AS some GROUP BY queue, kind, due",
		args, []any{&w.Queue, &w.Kind, &due, &w.Due, &w.PutOff}, func() {
			if !due {
				w.Due = 0
			}
			all = append(all, w)
		})
	if err != nil {
		return nil, fmt.Errorf("count unhandled tasks: %w", err)
	}
	return all, nil
}

func (s *Store) unhandled(ctx context.Context, all []Waiting) (found []protocol.Unhandled) {
	handlers := s.handlers(ctx)
	tasks := map[protocol.Unhandled]int64{}
	for _, w := range all {
		n := w.PutOff
		if handlers.lack(w.Queue, w.Kind) {
			n = max(n, w.Due)
		}
		if n > 0 {
			tasks[protocol.Unhandled{Queue: w.Queue, Kind: w.Kind}] += n
		}
	}
	for u, n := range tasks {
		u.Tasks = n
		found = append(found, u)
	}
	slices.SortFunc(found, func(a, b protocol.Unhandled) int {
		return cmp.Or(cmp.Compare(b.Tasks, a.Tasks), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Kind, b.Kind))
	})
	return found
}

// counts runs a query that returns a key and a number in each row.
func counts[K comparable](ctx context.Context, db *sqlx.DB, query string, args ...any) (map[K]int64, error) {
	var key K
	var n int64
	m := map[K]int64{}
	err := forEach(ctx, db, query, args, []any{&key, &n}, func() { m[key] = n })
	return m, err
}
