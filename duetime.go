// Package duetime is what a service imports: durable delayed tasks that are committed with the service's own data, can be
// moved or cancelled until their effect commits, and run once.
//
// A service opens a Client on the same configuration as the event and daemon processes of its namespace. It schedules
// in its own transaction (InTx, Join) and runs handlers (Work), in one process or in several. See examples/worker for a
// worker and the examples folder for whole services; package pkg/embedded does the same in one process without Redis, Kafka
// and ZooKeeper.
package duetime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/internal/config"
	"github.com/duetime/duetime/internal/inside"
	"github.com/duetime/duetime/internal/metric"
	"github.com/duetime/duetime/internal/parts"
	"github.com/duetime/duetime/internal/presence"
	"github.com/duetime/duetime/internal/store"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Config is the configuration that all processes of a namespace share. docs/CONFIG.md lists its keys.
type Config = config.Config

// Secret is a text of a Config that nothing prints: a mask stands for it wherever it is shown.
type Secret = config.Secret

// DSN is a Config's address of MySQL; printing it masks its password.
type DSN = config.DSN

// DefaultConfig returns every key's default.
func DefaultConfig() Config { return config.Default() }

// LoadConfig reads the file at path and the environment's DUETIME_ overrides. An empty path means configs/duetime.yaml,
// which may be missing. An error names the wrong key.
func LoadConfig(path string) (Config, error) {
	if path == "" {
		return config.Load(config.DefaultPath, false, os.Environ())
	}
	return config.Load(path, true, os.Environ())
}

// Option adds to Open's configuration.
type Option func(*options)

type options struct {
	logger  *slog.Logger
	metrics prometheus.Registerer
	joined  func()
	tracer  trace.TracerProvider
	before  schedule.SpecFunc
	mux     *worker.Mux
	in      schedule.InChangeFunc
	on      schedule.OnChangeFunc
}

// WithLogger sends the client's log to l; without it slog's default is used. The Redis library's own messages go where
// the process has sent them (redis.SetLogger).
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.logger = l } }

// WithMetrics registers the client's metrics with r, with the label namespace; without it there are no metrics.
func WithMetrics(r prometheus.Registerer) Option { return func(o *options) { o.metrics = r } }

// WithTracer makes the client's spans by p; without it by OpenTelemetry's global provider, which makes none unless the
// program has set a provider. A call that schedules within a trace stores its trace context in the tasks' rows, and the
// span of a task's effect links to it.
func WithTracer(p trace.TracerProvider) Option { return func(o *options) { o.tracer = p } }

// OnJoined calls fn each time that a call of Work has become a member of the groups of all its queues: the process is
// then ready to work. While Kafka is away it calls fn after 10 s: due tasks are then looked for in MySQL.
func OnJoined(fn func()) Option { return func(o *options) { o.joined = fn } }

// BeforeSchedule has fn see each spec before the client schedules it, and before a handler of Work does. fn returns the spec,
// changed or not, or an error that refuses the call; see schedule.SpecFunc.
func BeforeSchedule(fn func(ctx context.Context, spec task.Spec) (task.Spec, error)) Option {
	return func(o *options) { o.before = fn }
}

// Handlers gives the client the handlers by which it runs due tasks in transactions of its own, for schedule.Tx.SettleDue and
// Fresh. They are those of the workers; the mux must not be changed after.
func Handlers(mux *worker.Mux) Option { return func(o *options) { o.mux = mux } }

// InChange has fn see what each transaction of the client, and of its Work, did to tasks, before it commits; see schedule.InChangeFunc.
func InChange(fn schedule.InChangeFunc) Option { return func(o *options) { o.in = fn } }

// OnChange has fn hear of what each transaction of the client, and of its Work, did to tasks, after the commit; see
// schedule.OnChangeFunc.
func OnChange(fn schedule.OnChangeFunc) Option { return func(o *options) { o.on = fn } }

// Client schedules tasks and runs them. It is safe for concurrent use. If it is not closed, index writes in flight are
// left to the daemon.
type Client struct {
	*schedule.Client
	parts   *parts.Parts
	metrics prometheus.Registerer
	joined  func()
	reader  *engine.Reader // nil: no handlers

	mu      sync.Mutex
	workers map[*engine.Worker]bool // of the calls of Work under way
}

// Open prepares a client. It dials nothing: a server that is away shows at the first use, or in Ready. An error means
// that the configuration can't work. Open panics if the registry of WithMetrics uses one of the metrics' names for
// something else.
func Open(cfg Config, opts ...Option) (*Client, error) {
	o := options{logger: slog.Default(), joined: func() {}}
	for _, opt := range opts {
		opt(&o)
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	o.metrics = metric.In(cfg.Namespace, o.metrics)
	p, err := parts.Open(cfg, o.logger, o.metrics, store.Options{})
	if err != nil {
		return nil, err
	}
	p.Tracer, p.BeforeSchedule, p.InChange, p.OnChange = o.tracer, o.before, o.in, o.on
	c := &Client{parts: p, metrics: o.metrics, joined: o.joined, workers: map[*engine.Worker]bool{}}
	if o.mux != nil {
		if c.reader, err = engine.NewReader(c.workerConfig(), o.mux, p.Store); err != nil {
			return nil, errors.Join(err, p.Close(context.Background()))
		}
		p.Settler = c.reader
	}
	if c.Client, err = p.Scheduler(o.metrics); err != nil {
		return nil, errors.Join(err, p.Close(context.Background()))
	}
	return c, nil
}

// workerConfig is what the configuration and the options say about running tasks.
func (c *Client) workerConfig() engine.Config {
	cfg := c.parts.Config
	return engine.Config{
		Queues: cfg.Worker.Queues, Concurrency: cfg.Worker.Concurrency, Batch: cfg.Worker.Batch,
		HandlerTimeout: cfg.Worker.HandlerTimeout, Drain: cfg.Worker.Drain, Late: cmp.Or(cfg.Worker.Late, -1),
		Limits: cfg.Limits, Kinds: c.parts.Kinds, BeforeSchedule: c.parts.BeforeSchedule, Logger: c.parts.Log,
		Metrics: c.metrics, Tracer: c.parts.Tracer,
	}
}

// Ready waits until MySQL answers and its schema is there, even while Redis and Kafka are away. It returns at once when
// the credentials are refused or the schema belongs to another namespace. From then on, until Close, the client follows
// MySQL's clock by a query every few seconds; a client that was never ready goes by the host's clock.
func (c *Client) Ready(ctx context.Context) error {
	if err := c.parts.AwaitSchema(ctx); err != nil {
		return err
	}
	c.parts.FollowClock()
	return nil
}

// AwaitIndex waits until Redis answers. It returns nil also when ctx ends first, and an error when Redis refuses the
// credentials or would evict entries. Scheduling works without Redis; a process that runs AwaitIndex beside its work ends
// on a wrong password instead of depending on compensation.
func (c *Client) AwaitIndex(ctx context.Context) error { return c.parts.AwaitIndex(ctx) }

// AwaitStream waits until Kafka answers. It returns nil also when ctx ends first, and an error when Kafka refuses the
// credentials.
func (c *Client) AwaitStream(ctx context.Context) error { return c.parts.AwaitStream(ctx) }

// DB is the client's handle on MySQL, for the service's own statements outside of a transaction.
func (c *Client) DB() *sqlx.DB { return c.parts.Store.DB() }

// Console returns operators' view of the deployment and their changes of it, for the service's own pages and tools: what the
// tool duetime shows and does. Changes by it have the actor service@host in the history; Console.As gives another one.
func (c *Client) Console() *console.Console {
	cfg := c.parts.Config
	return console.New(console.Config{
		Namespace: cfg.Namespace, Queues: cfg.Queues, Limits: cfg.Limits, Grace: cfg.Daemon.Grace, Retention: cfg.Daemon.ShortestRetention(),
		Servers: c.parts.Servers(),
	}, c.parts.Store, c.parts.Index, c.Client)
}

// Unavailable reports whether an error says that MySQL is away and nothing was committed. It is false for
// ErrCommitUnknown, which may have the same cause.
func (c *Client) Unavailable(err error) bool {
	return !errors.Is(err, schedule.ErrCommitUnknown) && c.parts.Store.Unavailable(err)
}

// Refused reports whether an error says that MySQL refuses the credentials or the rights that go with them.
func (c *Client) Refused(err error) bool { return store.Classify(err).Refused() }

// Close waits briefly for the index writes in flight and closes all connections. Work must have returned.
func (c *Client) Close(ctx context.Context) error {
	c.Client.Close(ctx)
	c.reader.Close()
	return c.parts.Close(ctx)
}

// Work runs the mux's handlers on due tasks until ctx ends. Then it takes no more tasks, lets running handlers finish for
// worker.drain, and returns nil. Any number of processes may work at once. It reads the queues of the mux's kinds, or of these
// the ones that worker.queues names. It returns an error at once if worker.queues names one without a kind, if a kind's timeout is above
// worker.handler_timeout, or if the mux is empty; and, as soon as MySQL answers, if the configuration lacks a kind's queue, and no
// operator has added it.
func (c *Client) Work(ctx context.Context, mux *worker.Mux) error {
	if mux == nil {
		return errors.New("duetime: Work needs a mux")
	}
	cfg := c.parts.Config
	queues := cmp.Or(len(cfg.Worker.Queues), len(mux.Queues()))
	options := store.ForWorker(queues, cfg.Worker.Concurrency, cfg.Worker.HandlerTimeout)
	options.OnFull = metric.CountFull(c.metrics)
	st, err := parts.OpenStore(cfg, options)
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	defer metric.ShowPool(c.metrics, "worker", st.DB().DB)()
	ledger, working := schedule.InsideClient(inside.Key{}, c.Client).Ledger(), c.workerConfig()
	working.Hooks, working.OnUnknown = ledger.Hooks(), ledger.Unknown
	w, err := engine.New(working, mux, st, c.parts.Stream, ledger.Writer(), c.parts.Stream)
	if err != nil {
		return err
	}
	// New came before: the worker's metrics must exist while it waits.
	if err := c.Ready(ctx); ctx.Err() != nil {
		return nil // ctx ended before the work began
	} else if err != nil {
		return err
	}
	if err := c.parts.Kinds.CheckHandled(func(queue string) (bool, error) { return c.parts.Store.HoldQueue(ctx, c.DB(), queue) }); ctx.Err() != nil {
		return nil
	} else if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	pools := c.DB().Stats().MaxOpenConnections + st.DB().Stats().MaxOpenConnections
	if err := c.parts.CheckConnections(ctx, pools); err != nil {
		c.parts.Log.WarnContext(ctx, "connections not compared with MySQL's", slog.Any("err", err))
	}
	if len(cfg.Worker.Queues) == 0 {
		cfg.Worker.Queues = mux.Queues()
	}
	defer presence.Start(presence.Config{
		ID: w.ID(), Role: "worker", Configured: cfg.Queues, Queues: cfg.Worker.Queues, Kinds: mux.Kinds(), Calls: w.Calls, Logger: c.parts.Log,
	}, c.parts.Store).Stop()
	return c.work(ctx, w)
}

// Alive returns an error if a call of Work hangs, because its own loop stands still: serve it as your process's liveness. It asks
// no server.
func (c *Client) Alive() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.workers {
		if err := w.Alive(); err != nil {
			return err
		}
	}
	return nil
}

// watch has Alive look at a worker until the returned function is called.
func (c *Client) watch(w *engine.Worker) (forget func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workers[w] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.workers, w)
	}
}

func (c *Client) work(ctx context.Context, w *engine.Worker) error {
	defer c.watch(w)()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer stop()
		return w.Run(ctx)
	})
	group.Go(func() error { return c.AwaitIndex(ctx) })
	group.Go(func() error {
		if c.awaitWork(ctx, w) {
			c.joined()
		}
		return nil
	})
	return group.Wait()
}

// lookingAfter is how long a worker that can't join its groups waits before it counts as ready: it looks for due tasks in MySQL.
const lookingAfter = 10 * time.Second

// awaitWork waits until the worker gets work, and reports false if ctx ended first.
func (c *Client) awaitWork(ctx context.Context, w *engine.Worker) bool {
	if c.parts.Config.Worker.Late == 0 { // no look finds anything
		return w.Joined(ctx) == nil
	}
	waiting, enough := context.WithTimeout(ctx, lookingAfter)
	defer enough()
	if w.Joined(waiting) == nil {
		return true
	}
	if ctx.Err() != nil {
		return false
	}
	c.parts.Log.WarnContext(ctx, "ready without Kafka: due tasks are looked for in MySQL until the groups are joined")
	return true
}
