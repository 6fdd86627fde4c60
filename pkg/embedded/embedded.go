// Package embedded runs the whole pipeline in one process: the same stages as the event, worker and daemon processes, on
// an index in memory, a stream in memory and an in-process election. What must survive lies in the database alone, so a
// crash loses nothing: the next start rebuilds the rest from the rows.
//
// It has two uses. On the service's own MySQL it is the small-scale way, and the way of local development: one process,
// no Redis, Kafka or ZooKeeper to run. On SQLite it needs nothing at all, for demos and tests.
//
// One process at a time may work on a schema this way; a second one takes over the leadership and both go on slower,
// though nothing is lost or done twice. Its memory grows with the pending tasks, about a kilobyte each.
package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/elect"
	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/migrations"
	"github.com/duetime/duetime/pkg/schedule"
)

// Config tunes an embedded pipeline; its zero value is usable.
type Config struct {
	Namespace string        // default duetime; a schema belongs to one
	Queues    []string      // default [default]
	Shards    int           // of a new schema; default 16
	Events    int           // candidates that stand by for firing; default 1, more only to practise a fail-over
	Workers   int           // workers that share the queues; default 1
	Batch     int           // tasks in one transaction; default 100
	Lead      time.Duration // how far ahead of its time a hint is sent; default 50 ms
	Grace     time.Duration // after which a pending row is overdue; default 2 s
	Interval  time.Duration // between two sweeps; default 2 s
	Retention time.Duration // of finished rows; default 168 h
	Logger    *slog.Logger  // default slog.Default()
	Metrics   prometheus.Registerer
}

func (c Config) withDefaults() Config {
	c.Namespace = cmp.Or(c.Namespace, "duetime")
	if len(c.Queues) == 0 {
		c.Queues = []string{"default"}
	}
	c.Shards = cmp.Or(c.Shards, 16)
	c.Events = cmp.Or(c.Events, 1)
	c.Workers = cmp.Or(c.Workers, 1)
	c.Batch = cmp.Or(c.Batch, 100)
	c.Lead = cmp.Or(c.Lead, 50*time.Millisecond)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

// Pipeline is an open embedded pipeline. It schedules like any client; Work makes it fire. It is safe for concurrent use.
type Pipeline struct {
	*schedule.Client
	cfg    Config
	store  *store.Store
	memory *miniredis.Miniredis
	index  *index.Index
	stream *stream.Local
	clock  *loop.Clock
	ballot *elect.Ballot
}

// partitions of each queue's topic in memory: enough to keep a few workers busy.
const partitions = 8

// OpenMySQL opens a pipeline on a MySQL or MariaDB schema and brings duetime's tables in it up to date. The DSN needs
// user, address and schema; the service's own tables may live beside.
func OpenMySQL(ctx context.Context, dsn string, cfg Config) (*Pipeline, error) {
	s, err := store.Open(dsn, store.Options{})
	if err != nil {
		return nil, fmt.Errorf("open dsn: %w", err)
	}
	return open(ctx, s, cfg)
}

// OpenSQLite opens a pipeline on one file, which is made if it is missing.
func OpenSQLite(ctx context.Context, path string, cfg Config) (*Pipeline, error) {
	s, err := store.OpenSQLite(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return open(ctx, s, cfg)
}

func open(ctx context.Context, s *store.Store, cfg Config) (*Pipeline, error) {
	p := &Pipeline{cfg: cfg.withDefaults(), store: s, ballot: elect.NewBallot()}
	if err := p.open(ctx); err != nil {
		return nil, errors.Join(err, p.Close(ctx))
	}
	return p, nil
}

func (p *Pipeline) open(ctx context.Context) error {
	if err := p.store.Migrate(ctx, migrations.Files, p.cfg.Namespace, p.cfg.Shards); err != nil {
		return err
	}
	p.clock = loop.NewClock(func(ctx context.Context) (time.Time, error) { return p.store.Now(ctx, nil) }, p.cfg.Logger, p.cfg.Metrics)
	if err := p.clock.Learn(ctx); err != nil {
		return err
	}
	var err error
	if p.memory, err = miniredis.Run(); err != nil {
		return fmt.Errorf("start the index in memory: %w", err)
	}
	p.index, err = index.Open(index.Config{
		Namespace: p.cfg.Namespace, Addrs: []string{p.memory.Addr()}, Embedded: true, Logger: p.cfg.Logger,
	})
	if err != nil {
		return err
	}
	p.stream = stream.NewLocal(stream.Config{
		Namespace: p.cfg.Namespace, Queues: p.cfg.Queues, Partitions: partitions, Now: p.clock.Now,
		Logger: p.cfg.Logger, Metrics: p.cfg.Metrics,
	})
	p.Client, err = schedule.New(schedule.Config{Shards: p.shards, Logger: p.cfg.Logger, Metrics: p.cfg.Metrics}, p.store, p.index, p.stream)
	return err
}

// DB is the pipeline's handle on the database, for the service's own statements outside of a transaction.
func (p *Pipeline) DB() *sqlx.DB { return p.store.DB() }

// ForUpdate is the suffix of a SELECT that locks its rows until the transaction ends; empty on SQLite.
func (p *Pipeline) ForUpdate() string { return p.store.Dialect().ForUpdate() }

// Unavailable tells whether an error says that the database is away.
func (p *Pipeline) Unavailable(err error) bool { return p.store.Unavailable(err) }

// Close closes the pipeline. Work must have returned.
func (p *Pipeline) Close(ctx context.Context) error {
	var errs []error
	if p.Client != nil {
		p.Client.Close(ctx)
	}
	if p.stream != nil {
		errs = append(errs, p.stream.Close())
	}
	if p.index != nil {
		errs = append(errs, p.index.Close())
	}
	if p.memory != nil {
		p.memory.Close()
	}
	return errors.Join(append(errs, p.store.Close())...)
}
