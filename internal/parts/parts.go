// Package parts opens the servers that a configuration names: it turns configuration into adapters, for all processes. It
// owns no protocol; each command wires the parts.
package parts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/duetime/duetime/internal/config"
	"github.com/duetime/duetime/internal/dsn"
	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/kinds"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/metric"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/internal/trust"
	"github.com/duetime/duetime/internal/wait"
	"github.com/duetime/duetime/migrations"
	"github.com/duetime/duetime/pkg/schedule"
)

// Parts are the adapters of one process. No server is dialled before its first use.
type Parts struct {
	Config config.Config
	Log    *slog.Logger
	Store  *store.Store
	Index  *index.Index
	Stream *stream.Kafka
	Clock  *loop.Clock
	Actor  string               // in the history, who changes tasks through the Scheduler; empty means a service
	Tracer trace.TracerProvider // nil means the global one
	Kinds  *kinds.Kinds         // of the configuration's queues

	BeforeSchedule schedule.SpecFunc // sees what the Scheduler schedules; nil means none
	Settler        schedule.Settler  // runs due tasks in the Scheduler's transactions; nil means none
	InChange       schedule.InChangeFunc
	OnChange       schedule.OnChangeFunc

	hidePool func() // from the metrics

	following sync.Once // begins to follow the clock
	unfollow  func()    // ends that; nil if it has not begun

	layout atomic.Pointer[protocol.Layout] // as AwaitSchema read it
}

// Open makes the adapters. reg may be nil. An error means that the configuration can't work.
func Open(cfg config.Config, log *slog.Logger, reg prometheus.Registerer, o store.Options) (*Parts, error) {
	p := &Parts{Config: cfg, Log: log, Kinds: kinds.New(cfg.Queues)}
	var err error
	o.OnFull = metric.CountFull(reg)
	if p.Store, err = OpenStore(cfg, o); err != nil {
		return nil, err
	}
	for _, name := range dsn.Unused(string(cfg.MySQL.DSN)) {
		log.Warn("mysql.dsn: this parameter has no effect, duetime sets it itself", slog.String("configured", name))
	}
	if zones := dsn.Zones(string(cfg.MySQL.DSN)); zones != "" {
		log.Warn("mysql.dsn: two zones are in use", slog.String("warning", zones))
	}
	if host := Cleartext(cfg); host != "" {
		log.Warn("mysql.dsn: the password travels without TLS, set mysql.tls.ca_file", slog.String("configured", host))
	}
	p.hidePool = metric.ShowPool(reg, "client", p.Store.DB().DB)
	p.Clock = loop.NewClock(p.Store.Clock, log, reg)
	if p.Index, err = p.openIndex(); err != nil {
		return nil, errors.Join(err, p.Store.Close())
	}
	if p.Stream, err = p.openStream(reg); err != nil {
		return nil, errors.Join(err, p.Index.Close(), p.Store.Close())
	}
	return p, nil
}

// Cleartext returns the host to which MySQL's password would travel without TLS; empty if it would to none.
func Cleartext(cfg config.Config) string {
	secret, err := cfg.MySQL.Secret()
	if err != nil || cfg.MySQL.TLS.CAFile != "" {
		return ""
	}
	return dsn.Cleartext(string(secret))
}

// OpenStore opens a handle on MySQL.
func OpenStore(cfg config.Config, o store.Options) (*store.Store, error) {
	secret, err := cfg.MySQL.Secret()
	if err != nil {
		return nil, err
	}
	if o.TLS, err = trust.Client("mysql.tls", trust.Files(cfg.MySQL.TLS)); err != nil {
		return nil, err
	}
	o.Namespace, o.MaxOpen = cfg.Namespace, cmp.Or(o.MaxOpen, cfg.MySQL.MaxOpen)
	st, err := store.Open(string(secret), o)
	if err != nil {
		return nil, fmt.Errorf("mysql.dsn: %w", err)
	}
	return st, nil
}

func (p *Parts) openIndex() (*index.Index, error) {
	cfg := p.Config
	password, err := cfg.Redis.Secret()
	if err != nil {
		return nil, err
	}
	sentinelPassword, err := cfg.Redis.SentinelSecret()
	if err != nil {
		return nil, err
	}
	tls, err := trust.Client("redis.tls", trust.Files(cfg.Redis.TLS))
	if err != nil {
		return nil, err
	}
	x, err := index.Open(index.Config{
		Namespace: cfg.Namespace, Mode: cfg.Redis.Mode, MasterName: cfg.Redis.MasterName, Addrs: cfg.Redis.Addrs,
		Username: cfg.Redis.Username, Password: string(password), TLS: tls,
		SentinelUsername: cfg.Redis.SentinelUsername, SentinelPassword: string(sentinelPassword),
		PutUntil: p.putUntil, Now: p.Clock.Now,
	})
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	return x, nil
}

// putUntil returns the moment before which tasks are put into the index; zero for all. All are if the layout is not known: an
// entry too many is harmless.
func (p *Parts) putUntil(ctx context.Context) time.Time {
	l, err := p.Store.RecentLayout(ctx)
	if err != nil {
		return time.Time{}
	}
	return l.PutUntil(p.Clock.Now())
}

func (p *Parts) openStream(reg prometheus.Registerer) (*stream.Kafka, error) {
	cfg := p.Config
	password, err := cfg.Kafka.SASL.Secret()
	if err != nil {
		return nil, err
	}
	tls, err := trust.Client("kafka.tls", trust.Files(cfg.Kafka.TLS))
	if err != nil {
		return nil, err
	}
	queues := cfg.Queues
	if cfg.Daemon.Witness {
		queues = append(slices.Clone(queues), protocol.WitnessQueue)
	}
	return stream.NewKafka(stream.Config{
		Namespace: cfg.Namespace, Queues: queues, Brokers: cfg.Kafka.Brokers,
		Partitions: cfg.Kafka.Partitions, Replication: cfg.Kafka.Replication,
		TLS: tls, Mechanism: cfg.Kafka.SASL.Mechanism, Username: cfg.Kafka.SASL.Username, Password: string(password),
		SessionTimeout: cfg.Kafka.SessionTimeout, Heartbeat: cfg.Kafka.Heartbeat(),
		Now: p.Clock.Now, Logger: p.Log, Metrics: reg,
	})
}

// Servers ask the servers besides MySQL whether they answer, by their names.
func (p *Parts) Servers() map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{"Redis": p.Index.Ping, "Kafka": p.Stream.Ping}
}

// clientClockInterval is the time between two probes of the database's clock by a client, of which there may be many.
const clientClockInterval = 5 * time.Second

// FollowClock probes the database's clock every few seconds from now on, until Close: the database may fail over to a host
// with another clock. The caller has just read the clock, as AwaitSchema does. Elected processes run Clock.Run instead.
func (p *Parts) FollowClock() {
	p.following.Do(func() {
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan struct{})
		p.unfollow = func() { stop(); <-ended }
		go func() {
			defer close(ended)
			loop.Sleep(ctx, clientClockInterval)
			_ = p.Clock.RunEvery(ctx, clientClockInterval) // it ends with ctx alone
		}()
	})
}

// Close closes all adapters.
func (p *Parts) Close(context.Context) error {
	p.following.Do(func() {}) // a later FollowClock does nothing
	if p.unfollow != nil {
		p.unfollow()
	}
	p.hidePool()
	return errors.Join(p.Stream.Close(), p.Index.Close(), p.Store.Close())
}

// AwaitSchema waits until MySQL answers and its schema has every migration that this version knows, and reads the
// database's clock. These are fatal: refused credentials, an untrusted server, settings that break a promise, and a
// schema of another namespace. A different shard count is logged once as a warning.
func (p *Parts) AwaitSchema(ctx context.Context) error {
	var layout protocol.Layout
	err := wait.For(ctx, p.Log, "mysql", func(ctx context.Context) (err error) {
		if err = p.CheckMySQL(ctx); err == nil {
			err = p.Store.CheckMigrations(ctx, migrations.Files)
		}
		if err == nil {
			layout, err = p.Store.Layout(ctx)
		}
		if err == nil {
			err = p.Clock.Learn(ctx)
		}
		return fatal(store.Refusal(err), err)
	})
	if err != nil {
		return err
	}
	return p.checkLayout(ctx, layout)
}

// CheckMySQL asks MySQL whether a connection has the settings on which the promises depend. A wrong setting is fatal:
// waiting doesn't change it.
func (p *Parts) CheckMySQL(ctx context.Context) error {
	err := p.Store.CheckSession(ctx)
	if _, wrong := errors.AsType[*store.SettingError](err); wrong {
		return wait.Fatal(err)
	}
	return err
}

// CheckConnections warns if all workers, of which each may open so many connections, may open more than MySQL takes.
// Replicas of zero are unknown.
func (p *Parts) CheckConnections(ctx context.Context, each int) error {
	needed := p.Config.Worker.Replicas * each
	if needed == 0 {
		return nil
	}
	allowed, err := p.Store.MaxConnections(ctx)
	if err == nil && needed > allowed {
		p.Log.WarnContext(ctx, "mysql: max_connections is below what worker.replicas workers may open",
			slog.Int("needed", needed), slog.Int("allowed", allowed))
	}
	return err
}

// CheckNamespace returns an error if the schema belongs to another namespace than the configuration's.
func (p *Parts) CheckNamespace(layout protocol.Layout) error {
	if layout.Namespace != p.Config.Namespace {
		return fmt.Errorf("namespace: is %q, but the schema belongs to namespace %q", p.Config.Namespace, layout.Namespace)
	}
	return nil
}

func (p *Parts) checkLayout(ctx context.Context, layout protocol.Layout) error {
	if err := p.CheckNamespace(layout); err != nil {
		return wait.Fatal(err)
	}
	p.layout.Store(&layout)
	if layout.Shards != p.Config.Shards {
		p.Log.WarnContext(ctx, "shards ignored: the schema was made with another number",
			slog.Int("configured", p.Config.Shards), slog.Int("n", layout.Shards))
	}
	return nil
}

// AwaitIndex waits until Redis answers, or returns nil when ctx ends first. Refused credentials, an untrusted server and
// a memory policy that evicts entries are fatal; a policy that can't be read is logged as a warning.
func (p *Parts) AwaitIndex(ctx context.Context) error {
	err := wait.For(ctx, p.Log, "redis", func(ctx context.Context) error {
		err := p.Index.Ping(ctx)
		return fatal(index.Refusal(err), err)
	})
	if err != nil {
		return wait.UnlessStopped(ctx, err)
	}
	policy, err := p.Index.CheckPolicy(ctx)
	switch {
	case err != nil:
		if ctx.Err() == nil {
			p.Log.WarnContext(ctx, "redis memory policy unknown", "err", err)
		}
	case policy != "":
		return wait.Fatal(fmt.Errorf("redis.addrs: %s", policy))
	}
	return p.claimNamespace(ctx)
}

// claimNamespace is fatal if another schema uses the namespace on this Redis: each daemon would remove the other's
// entries, and each worker drop the other's hints. AwaitSchema has read the schema's id.
func (p *Parts) claimNamespace(ctx context.Context) error {
	layout := p.layout.Load()
	if layout == nil || layout.Deployment == "" {
		return nil
	}
	owner, err := p.Index.ClaimNamespace(ctx, layout.Deployment)
	switch {
	case err != nil:
		if ctx.Err() == nil {
			p.Log.WarnContext(ctx, "namespace not compared with Redis", "err", err)
		}
	case owner != layout.Deployment:
		return wait.Fatal(fmt.Errorf("namespace: %q belongs to another MySQL schema on this Redis (deployment %s, this one is %s): "+
			"give each schema its own namespace; if the other schema is no more, delete the Redis key %s",
			p.Config.Namespace, owner, layout.Deployment, p.Index.NamespaceKey()))
	}
	return nil
}

// AwaitStream waits until Kafka answers, or returns nil when ctx ends first. Refused credentials and an untrusted server
// are fatal.
func (p *Parts) AwaitStream(ctx context.Context) error {
	err := wait.For(ctx, p.Log, "kafka", func(ctx context.Context) error {
		err := p.Stream.Ping(ctx)
		return fatal(stream.Refusal(err), err)
	})
	return wait.UnlessStopped(ctx, err)
}

// fatal returns the refusal, if there is one, as an error that retrying cannot fix; otherwise it returns err.
func fatal(refusal, err error) error {
	if refusal != nil {
		return wait.Fatal(refusal)
	}
	return err
}

// Scheduler returns a client that schedules on these parts. reg may be nil.
func (p *Parts) Scheduler(reg prometheus.Registerer) (*schedule.Client, error) {
	return schedule.New(schedule.Config{
		Layout: p.Store.RecentLayout, Kinds: p.Kinds, BeforeSchedule: p.BeforeSchedule, InChange: p.InChange, OnChange: p.OnChange,
		Settler: p.Settler, Actor: p.Actor, Logger: p.Log, Metrics: reg, Tracer: p.Tracer,
	}, p.Store, p.Index, p.Stream)
}

// Away reports whether an error says that a server can't be reached.
func (p *Parts) Away(err error) bool {
	if _, refused := errors.AsType[*trust.Refusal](err); refused || store.Classify(err) == store.NoDatabase {
		return false
	}
	var network net.Error
	return p.Store.Unavailable(err) || index.Away(err) || errors.As(err, &network) || errors.Is(err, io.EOF)
}
