// Package embedded runs duetime in one process: a database and a worker. Only the database keeps what must survive, so a
// crash loses nothing. The worker reads from the database what comes due, and hears of tasks that its own process commits
// for now. A loop deletes old rows, carries out operators' mass changes, and meets recurrences.
//
// It has two uses. On the service's own MySQL it serves small deployments and local development: one process, without
// Redis, Kafka or ZooKeeper. On SQLite it needs no server, for demos and tests.
//
// Several processes may work on a schema this way. Each reads every task; nothing is lost or done twice. A task that one
// process schedules for now, and another one runs, is up to half a second late.
package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/duetime/duetime/internal/dsn"
	"github.com/duetime/duetime/internal/kinds"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/metric"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/migrations"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Config tunes an embedded pipeline; its zero value is usable.
type Config struct {
	Namespace      string                // default duetime; a schema belongs to one namespace
	Queues         []string              // of the kinds; other queues are refused, without any from Work on; default [default]
	Limits         map[string]task.Limit // of queues, over all workers; an operator's come first; default none
	Shards         int                   // of a new schema, for when it gets an index (duetime.Open); default 16
	Concurrency    int                   // concurrent transactions in each queue; default 8, on SQLite always 1
	Batch          int                   // tasks in one transaction; default 100
	HandlerTimeout time.Duration         // of one call of a handler; default 10 s; a kind may have less (task.Timeout), not more
	Drain          time.Duration         // of running handlers when Work's context ends; default 8 s, otherwise at least HandlerTimeout
	Grace          time.Duration         // after which a pending row is overdue; default 2 s
	Interval       time.Duration         // between two looks for recurrences without a next task; default 2 s
	Retention      time.Duration         // of finished rows; default 168 h

	// RetentionByKind is the same for done and cancelled tasks of some kinds, at least a minute; dead tasks stay for Retention.
	RetentionByKind map[string]time.Duration

	Logger *slog.Logger // default slog.Default()

	// BeforeSchedule sees each spec before the pipeline or one of its handlers schedules it, and may change or refuse it; nil
	// means none.
	BeforeSchedule schedule.SpecFunc
	// Handlers are those by which the pipeline runs due tasks in transactions of its own, for SettleDue and Fresh; nil means none. They
	// are those that Work is given; the mux must not be changed after.
	Handlers *worker.Mux
	// InChange sees what each transaction of the pipeline did to tasks, before it commits; nil means none.
	InChange schedule.InChangeFunc
	// OnChange hears of what each transaction of the pipeline did to tasks, after the commit; nil means none.
	OnChange schedule.OnChangeFunc
	// Metrics registers the metrics of this pipeline, with the label namespace; nil disables them. A second pipeline of the
	// same namespace in the process needs another registerer.
	Metrics prometheus.Registerer
	// Tracer makes the pipeline's spans; nil means OpenTelemetry's global provider.
	Tracer trace.TracerProvider

	named []string // Queues as the caller gave them, without the default
}

func (c Config) withDefaults() Config {
	c.Namespace = cmp.Or(c.Namespace, "duetime")
	if c.named = c.Queues; len(c.Queues) == 0 {
		c.Queues = []string{"default"}
	}
	c.Shards = cmp.Or(c.Shards, 16)
	c.Concurrency = cmp.Or(c.Concurrency, 8)
	c.Batch = cmp.Or(c.Batch, 100)
	c.HandlerTimeout = cmp.Or(c.HandlerTimeout, 10*time.Second)
	c.Grace = cmp.Or(c.Grace, 2*time.Second)
	c.Interval = cmp.Or(c.Interval, 2*time.Second)
	c.Retention = cmp.Or(c.Retention, 168*time.Hour)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

func (c Config) shortestRetention() time.Duration {
	return slices.Min(append(slices.Collect(maps.Values(c.RetentionByKind)), c.Retention))
}

// Validate refuses a configuration that can't work, naming the field.
func (c Config) Validate() error {
	c = c.withDefaults()
	for _, bound := range []struct {
		field         string
		got, min, max int64
	}{
		{"Shards", int64(c.Shards), 1, 1024},
		{"Concurrency", int64(c.Concurrency), 1, 1000},
		{"Batch", int64(c.Batch), 1, 1000},
		{"HandlerTimeout in ms", c.HandlerTimeout.Milliseconds(), 100, time.Hour.Milliseconds()},
		{"Drain in ms", c.Drain.Milliseconds(), 0, time.Hour.Milliseconds()},
		{"Grace in ms", c.Grace.Milliseconds(), 100, time.Hour.Milliseconds()},
		{"Interval in ms", c.Interval.Milliseconds(), 10, time.Hour.Milliseconds()},
		{"Retention in ms", c.Retention.Milliseconds(), 1000, 100 * 365 * 24 * time.Hour.Milliseconds()},
	} {
		if bound.got < bound.min || bound.got > bound.max {
			return fmt.Errorf("embedded: %s: %d is not between %d and %d", bound.field, bound.got, bound.min, bound.max)
		}
	}
	for kind, d := range c.RetentionByKind {
		if d < time.Minute {
			return fmt.Errorf("embedded: RetentionByKind of %s: %v is below 1m", kind, d)
		}
	}
	if c.Drain > 0 && c.Drain < c.HandlerTimeout {
		return fmt.Errorf("embedded: Drain: %v is below HandlerTimeout %v", c.Drain, c.HandlerTimeout)
	}
	for _, name := range append([]string{c.Namespace}, c.Queues...) {
		if protocol.CheckQueue(name) != nil {
			return fmt.Errorf("embedded: Namespace and Queues: %q must be 1 to %d characters of A-Z a-z 0-9 . _ -", name, task.MaxQueue)
		}
	}
	return nil
}

// Errors on which a caller may branch.
var (
	// ErrWorked answers a second call of Work.
	ErrWorked = errors.New("embedded: Work was called before")
	// ErrClosed answers Work after Close.
	ErrClosed = errors.New("embedded: the pipeline is closed")
)

// Pipeline is an open embedded pipeline. It schedules like any client. Work makes it fire; without Work tasks are stored,
// and the next process that works on the schema runs them. It is safe for concurrent use.
type Pipeline struct {
	*schedule.Client
	cfg    Config
	store  *store.Store
	worked *store.Store // the worker's handle; the store itself on SQLite
	clock  *loop.Clock
	hints  *hints
	kinds  *kinds.Kinds
	reader *engine.Reader // nil: no handlers

	mu      sync.Mutex
	closed  bool
	stop    context.CancelFunc // ends Work; nil before Work was called
	stopped chan struct{}      // closed when Work has returned
}

// OpenMySQL opens a pipeline on a MySQL or MariaDB schema and brings duetime's tables in it up to date. The address is a
// DSN of go-sql-driver/mysql with user, address and schema; the service's own tables may be in the same schema. The DSN's
// parameters apply to the service's statements too (loc, parseTime, time_zone, clientFoundRows and the like). A parameter
// with which duetime can't work is an error that names it, and one without effect is logged. The server must answer: a
// service that starts before its database has to call OpenMySQL again.
func OpenMySQL(ctx context.Context, address string, cfg Config) (*Pipeline, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	cfg.Metrics = metric.In(cfg.Namespace, cfg.Metrics)
	if err := dsn.Check(address); err != nil {
		return nil, fmt.Errorf("open dsn: %w", err)
	}
	for _, name := range dsn.Unused(address) {
		cfg.Logger.WarnContext(ctx, "dsn: this parameter has no effect, duetime sets it itself", slog.String("configured", name))
	}
	if zones := dsn.Zones(address); zones != "" {
		cfg.Logger.WarnContext(ctx, "dsn: two zones are in use", slog.String("warning", zones))
	}
	s, err := store.Open(address, store.Options{})
	if err != nil {
		if reason := dsn.Unreadable(address); reason != "" {
			err = errors.New(reason)
		}
		return nil, fmt.Errorf("open dsn: %w", err)
	}
	worked, err := store.Open(address, store.ForWorker(len(cfg.Queues), cfg.Concurrency, cfg.HandlerTimeout))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open dsn: %w", err), s.Close())
	}
	return open(ctx, s, worked, cfg)
}

// OpenSQLite opens a pipeline on one file, and creates it if it is missing. The program must import modernc.org/sqlite, the
// driver: a service on MySQL does not link it. Only one process at a time may have the file open.
func OpenSQLite(ctx context.Context, path string, cfg Config) (*Pipeline, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s, err := store.OpenSQLite(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	cfg = cfg.withDefaults()
	cfg.Metrics = metric.In(cfg.Namespace, cfg.Metrics)
	cfg.Concurrency = 1 // a transaction locks the whole file
	return open(ctx, s, s, cfg)
}

func open(ctx context.Context, s, worked *store.Store, cfg Config) (*Pipeline, error) {
	p := &Pipeline{cfg: cfg, store: s, worked: worked, kinds: kinds.New(cfg.named)}
	if err := p.open(ctx); err != nil {
		return nil, errors.Join(err, p.Close(ctx))
	}
	return p, nil
}

func (p *Pipeline) open(ctx context.Context) error {
	if err := p.store.Migrate(ctx, migrations.Files, p.cfg.Namespace, p.cfg.Shards); err != nil {
		return err
	}
	// The worker's metrics already have the clock's offset.
	p.clock = loop.NewClock(p.store.Clock, p.cfg.Logger, nil)
	if err := p.clock.Learn(ctx); err != nil {
		return err
	}
	p.hints = newHints(p.store, p.clock, p.cfg.Logger, p.cfg.Queues)
	var settler schedule.Settler
	if p.cfg.Handlers != nil {
		reader, err := engine.NewReader(p.workerConfig(), p.cfg.Handlers, p.store)
		if err != nil {
			return err
		}
		p.reader, settler = reader, reader
	}
	var err error
	p.Client, err = schedule.New(schedule.Config{
		Kinds: p.kinds, BeforeSchedule: p.cfg.BeforeSchedule, InChange: p.cfg.InChange, OnChange: p.cfg.OnChange, Settler: settler,
		Logger: p.cfg.Logger, Metrics: p.cfg.Metrics, Tracer: p.cfg.Tracer,
	}, p.store, p.hints, p.hints)
	return err
}

// DB returns the pipeline's handle on the database, for the service's own statements outside of a transaction.
func (p *Pipeline) DB() *sqlx.DB { return p.store.DB() }

// Console returns operators' view of the pipeline and their changes of it, for the service's own pages and tools. Changes by it
// have the actor service@host in the history; Console.As gives another one. It knows the queues of Config.Queues. What it
// says of an index is an error, or a frame without shards and leaders: there is none, and nobody is elected.
func (p *Pipeline) Console() *console.Console {
	return console.New(console.Config{
		Namespace: p.cfg.Namespace, Queues: p.cfg.Queues, Limits: p.cfg.Limits, Grace: p.cfg.Grace, Retention: p.cfg.shortestRetention(),
	}, p.store, nil, p.Client)
}

// Unavailable reports whether an error says that the database is away and nothing was committed. It is false for
// ErrCommitUnknown, which may have the same cause.
func (p *Pipeline) Unavailable(err error) bool {
	return !errors.Is(err, schedule.ErrCommitUnknown) && p.store.Unavailable(err)
}

// Close ends Work if it runs, waits for its end or for ctx's, and closes the pipeline. Later calls do nothing.
func (p *Pipeline) Close(ctx context.Context) error {
	if !p.end(ctx) {
		return nil
	}
	var errs []error
	if p.Client != nil {
		p.Client.Close(ctx)
	}
	p.reader.Close()
	if p.worked != p.store {
		errs = append(errs, p.worked.Close())
	}
	return errors.Join(append(errs, p.store.Close())...)
}

// end forbids Work, and waits for a running one; false if the pipeline was closed before.
func (p *Pipeline) end(ctx context.Context) bool {
	p.mu.Lock()
	closed, stop, stopped := p.closed, p.stop, p.stopped
	p.closed = true
	p.mu.Unlock()
	if closed {
		return false
	}
	if stop != nil {
		stop()
		select {
		case <-stopped:
		case <-ctx.Done():
		}
	}
	return true
}
