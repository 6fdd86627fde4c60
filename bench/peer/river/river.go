// Package river puts riverqueue/river under the benchmark: jobs in a table of Postgres.
//
// A job becomes available by a pass that its leader makes every 5 s, for the coming 5 s, and is fetched when its moment
// has come; so one made less than 5 s ahead can be late by as much (https://riverqueue.com/docs/scheduled-jobs says so).
//
// A pending job can't be moved: JobUpdate takes an output only, and changing a schedule is an open wish
// (https://github.com/riverqueue/river/issues/123). An UPDATE of its table behind its back would do it, but is no part
// of its interface, so this queue is no queue.Mover.
package river

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	riverqueue "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/duetime/duetime/bench/queue"
)

const (
	// River's own benchmark (cmd/river/riverbench) takes 2 and 20 ms instead of the default 100 ms and 1 s, and says
	// that these two and the number of workers matter most. 1 ms is the least that River takes, for the least lag.
	fetchInterval = time.Millisecond
	// fetched jobs at most. River fetches no more at a time than it has workers free, and its benchmark found about
	// 1,000 best. The handlers among them that run side by side are as many as in every system; the others wait.
	fetched = 1000
	// rescueAfter is when a running job is taken for lost. The default is an hour; after a kill nobody would wait that
	// long, and the benchmark's jobs take milliseconds. It may not be less than the timeout of a job. River looks for
	// such jobs every 30 s and when a new leader begins, which can't be set.
	rescueAfter = 3 * time.Second
	// stopLimit is how long running jobs may take to finish at the end: without it they are cancelled at once.
	stopLimit = 8 * time.Second
	// batch is what River's benchmark inserts at a time.
	batch = 5000
	// connections are as many as there are callers at most that schedule side by side.
	connections = 64
	// migrating is the key of the advisory lock under which the tables are made.
	migrating = 0x62656e6368
)

// feed is the payload.
type feed queue.Job

// Kind names the job; River takes names of two characters and more.
func (feed) Kind() string { return "pet.meal" }

// Queue is a client that inserts and, while it works, one that fetches.
type Queue struct {
	pool    *pgxpool.Pool
	client  *riverqueue.Client[pgx.Tx]
	workers int
	rescue  time.Duration // 0: River's defaults, a minute and an hour
}

// River's job is itself the durable row, so a service needs no other.
var _ queue.Accepter = (*Queue)(nil)

// Open connects to Postgres and makes River's tables if they are missing.
func Open(ctx context.Context, env queue.Env) (queue.Queue, error) {
	config, err := pgxpool.ParseConfig(env.Postgres)
	if err != nil {
		return nil, fmt.Errorf("read the DSN: %w", err)
	}
	config.MaxConns = connections
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open postgres: %w", err)
	}
	q := &Queue{pool: pool, workers: env.Workers}
	if env.Rescue {
		q.rescue = rescueAfter
	}
	if err := migrate(ctx, pool); err != nil {
		pool.Close()
		return nil, err
	}
	if q.client, err = riverqueue.NewClient(riverpgxv5.New(pool), &riverqueue.Config{Logger: logger()}); err != nil {
		pool.Close()
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return q, nil
}

// migrate makes the tables. Producer and worker open at the same time, and River's migrator takes no lock.
func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("reach postgres: %w", err)
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, migrating); err != nil {
		return fmt.Errorf("lock the migration: %w", err)
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: logger()})
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if _, unlock := conn.Exec(ctx, `SELECT pg_advisory_unlock($1)`, migrating); err != nil || unlock != nil {
		return fmt.Errorf("make the tables: %w", errors.Join(err, unlock))
	}
	return nil
}

// logger keeps River off standard output, which is the driver's.
func logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// Accept is Schedule.
func (q *Queue) Accept(ctx context.Context, jobs []queue.Job) error { return q.Schedule(ctx, jobs) }

// Schedule inserts one job by Insert, and many by InsertManyFast, which copies them in.
func (q *Queue) Schedule(ctx context.Context, jobs []queue.Job) error {
	if len(jobs) == 1 {
		if _, err := q.client.Insert(ctx, feed(jobs[0]), at(jobs[0])); err != nil {
			return fmt.Errorf("insert %d: %w", jobs[0].ID, err)
		}
		return nil
	}
	for part := range slices.Chunk(jobs, batch) {
		rows := make([]riverqueue.InsertManyParams, len(part))
		for i, j := range part {
			rows[i] = riverqueue.InsertManyParams{Args: feed(j), InsertOpts: at(j)}
		}
		if _, err := q.client.InsertManyFast(ctx, rows); err != nil {
			return fmt.Errorf("insert %d jobs from %d: %w", len(part), part[0].ID, err)
		}
	}
	return nil
}

func at(j queue.Job) *riverqueue.InsertOpts { return &riverqueue.InsertOpts{ScheduledAt: j.At()} }

// Work runs a client until ctx ends and what it has fetched is done.
func (q *Queue) Work(ctx context.Context, e *queue.Effects) error {
	workers := riverqueue.NewWorkers()
	riverqueue.AddWorker(workers, &worker{effects: e, slots: make(chan struct{}, q.workers)})
	client, err := riverqueue.NewClient(riverpgxv5.New(q.pool), &riverqueue.Config{
		Queues:               map[string]riverqueue.QueueConfig{riverqueue.QueueDefault: {MaxWorkers: fetched}},
		Workers:              workers,
		FetchCooldown:        fetchInterval,
		FetchPollInterval:    fetchInterval,
		JobTimeout:           q.rescue,
		RescueStuckJobsAfter: q.rescue,
		SoftStopTimeout:      stopLimit,
		Logger:               logger(),
	})
	if err != nil {
		return fmt.Errorf("make a working client: %w", err)
	}
	if err := client.Start(ctx); err != nil {
		return fmt.Errorf("start the client: %w", err)
	}
	<-client.Stopped()
	return nil
}

// Close ends the connections.
func (q *Queue) Close() error {
	q.pool.Close()
	return nil
}

// worker runs the handlers, so many side by side as there are slots.
type worker struct {
	riverqueue.WorkerDefaults[feed]
	effects *queue.Effects
	slots   chan struct{}
}

// Work runs one job's handler.
func (w *worker) Work(ctx context.Context, j *riverqueue.Job[feed]) error {
	select {
	case w.slots <- struct{}{}:
		defer func() { <-w.slots }()
		return w.effects.Do(ctx, queue.Job(j.Args))
	case <-ctx.Done():
		return ctx.Err()
	}
}
