// Package scan is a database table that is read each second: the rows of bench_tasks are the queue. A job is claimed by
// marking its row done in the transaction of its effect, so nothing is lost or doubled.
package scan

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql" // the queue's database
	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/bench/alternative"
	"github.com/duetime/duetime/bench/queue"
)

const (
	interval = time.Second // as people do: each scan costs the database a query
	batch    = 1000        // rows a scan, and rows an insert
	loaders  = 4           // bulk inserts side by side
)

// Queue is the table.
type Queue struct {
	db      *sql.DB
	workers int
}

// Open connects to the table.
func Open(ctx context.Context, env queue.Env) (queue.Queue, error) {
	db, err := sql.Open("mysql", env.MySQL)
	if err != nil {
		return nil, fmt.Errorf("open the table: %w", err)
	}
	db.SetMaxOpenConns(env.Workers)
	db.SetMaxIdleConns(env.Workers)
	return &Queue{db: db, workers: env.Workers}, db.PingContext(ctx)
}

var (
	_ queue.Accepter = (*Queue)(nil)
	_ queue.Mover    = (*Queue)(nil)
)

// Schedule inserts rows in bulk.
func (q *Queue) Schedule(ctx context.Context, jobs []queue.Job) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(loaders)
	for from := 0; from < len(jobs); from += batch {
		group.Go(func() error { return q.Accept(ctx, jobs[from:min(from+batch, len(jobs))]) })
	}
	return group.Wait()
}

// Accept inserts the rows in one statement: they are the queue, too.
func (q *Queue) Accept(ctx context.Context, jobs []queue.Job) error {
	args := make([]any, 0, 2*len(jobs))
	for _, j := range jobs {
		args = append(args, j.ID, millis(j))
	}
	query := `INSERT INTO bench_tasks (id, due_at) VALUES ` + strings.Repeat(",(?,?)", len(jobs))[1:] //nolint:gosec // placeholders alone
	if _, err := q.db.ExecContext(ctx, query, args...); err != nil {
		return fmt.Errorf("insert %d rows: %w", len(jobs), err)
	}
	return nil
}

// Move changes the row while it is pending.
func (q *Queue) Move(ctx context.Context, j queue.Job) error {
	_, err := q.db.ExecContext(ctx, `UPDATE bench_tasks SET due_at = ? WHERE id = ? AND state = 0`, millis(j), j.ID)
	if err != nil {
		return fmt.Errorf("move %d: %w", j.ID, err)
	}
	return nil
}

// Work scans each second, and again at once while there is more than a scan takes.
func (q *Queue) Work(ctx context.Context, e *queue.Effects) error {
	return alternative.Poll(ctx, interval, func(ctx context.Context) (bool, error) {
		jobs, err := q.due(ctx)
		if err != nil {
			return false, err
		}
		return len(jobs) == batch, alternative.Each(ctx, q.workers, jobs, func(ctx context.Context, j queue.Job) error {
			return q.run(ctx, e, j)
		})
	})
}

// Close disconnects.
func (q *Queue) Close() error { return q.db.Close() }

func (q *Queue) due(ctx context.Context) ([]queue.Job, error) {
	rows, err := q.db.QueryContext(ctx, `SELECT id, due_at FROM bench_tasks WHERE state = 0 AND due_at <= ?
		ORDER BY due_at LIMIT ?`, time.Now().UnixMilli(), batch)
	if err != nil {
		return nil, fmt.Errorf("scan: %w", err)
	}
	defer func() { _ = rows.Close() }()
	var jobs []queue.Job
	for rows.Next() {
		var j queue.Job
		if err := rows.Scan(&j.ID, &j.Due); err != nil {
			return nil, fmt.Errorf("scan: %w", err)
		}
		j.Due *= 1000
		jobs = append(jobs, j)
	}
	return jobs, rows.Err()
}

// run claims the row and, if it was not taken, writes the effect in the same transaction.
func (q *Queue) run(ctx context.Context, e *queue.Effects, j queue.Job) error {
	if !e.Real() {
		return claim(ctx, q.db, e, j, func() error { return nil })
	}
	tx, err := e.DB().BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin %d: %w", j.ID, err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	return claim(ctx, tx, e, j, func() error {
		if _, err := tx.ExecContext(ctx, `UPDATE bench_pets SET meals = meals + 1 WHERE id = ?`, j.ID); err != nil {
			return err
		}
		return tx.Commit()
	})
}

// claim runs the effect if it is the one to mark the row done.
func claim(ctx context.Context, db execer, e *queue.Effects, j queue.Job, effect func() error) error {
	result, err := db.ExecContext(ctx, `UPDATE bench_tasks SET state = 1 WHERE id = ? AND state = 0`, j.ID)
	if err != nil {
		return fmt.Errorf("claim %d: %w", j.ID, err)
	}
	if n, err := result.RowsAffected(); n == 0 {
		return err
	}
	start := e.Start()
	if err := effect(); err != nil {
		return fmt.Errorf("effect of %d: %w", j.ID, err)
	}
	e.Done(j, start)
	return nil
}

// execer is a transaction or, without effects, the pool.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// millis is the due time in the row: whole ms, rounded up so that no job is early.
func millis(j queue.Job) int64 { return (j.Due + 999) / 1000 }
