// Package parts opens the servers that a configuration names: it turns configuration into adapters, once for all
// processes. It owns no protocol; what the parts do together is wired by each command, top to bottom.
package parts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/duetime/duetime/internal/config"
	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/process"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/pkg/schedule"
)

// Parts are the adapters of one process. Nothing is dialled before it is used.
type Parts struct {
	Config config.Config
	Log    *slog.Logger
	Store  *store.Store
	Index  *index.Index
	Stream *stream.Kafka
	Clock  *loop.Clock
	Tracer trace.TracerProvider // nil means the global one
}

// Open makes the adapters. reg may be nil. An error means that the configuration can't work.
func Open(cfg config.Config, log *slog.Logger, reg prometheus.Registerer, o store.Options) (*Parts, error) {
	p := &Parts{Config: cfg, Log: log}
	var err error
	if p.Store, err = store.Open(cfg.MySQL.DSN, o); err != nil {
		return nil, fmt.Errorf("mysql.dsn: %w", err)
	}
	p.Clock = loop.NewClock(p.Store.Clock, log, reg)
	p.Index, err = index.Open(index.Config{
		Namespace: cfg.Namespace, Mode: cfg.Redis.Mode, MasterName: cfg.Redis.MasterName, Addrs: cfg.Redis.Addrs,
		Username: cfg.Redis.Username, Password: cfg.Redis.Password, Logger: log,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("redis: %w", err), p.Store.Close())
	}
	p.Stream, err = stream.NewKafka(stream.Config{
		Namespace: cfg.Namespace, Queues: cfg.Queues, Brokers: cfg.Kafka.Brokers,
		Partitions: cfg.Kafka.Partitions, Replication: cfg.Kafka.Replication,
		SessionTimeout: cfg.Kafka.SessionTimeout, Heartbeat: cfg.Kafka.Heartbeat(),
		Now: p.Clock.Now, Logger: log, Metrics: reg,
	})
	if err != nil {
		return nil, errors.Join(err, p.Index.Close(), p.Store.Close())
	}
	return p, nil
}

// Close closes all adapters.
func (p *Parts) Close(context.Context) error {
	return errors.Join(p.Stream.Close(), p.Index.Close(), p.Store.Close())
}

// AwaitSchema waits until MySQL answers and the schema is there, and learns the database's clock. Refused credentials and
// a schema of another namespace are fatal; another shard count is worth one warning.
func (p *Parts) AwaitSchema(ctx context.Context) error {
	var layout store.Layout
	err := process.Wait(ctx, p.Log, "mysql", func(ctx context.Context) (err error) {
		layout, err = p.Store.Layout(ctx)
		if err == nil {
			err = p.Clock.Learn(ctx)
		}
		if store.IsRefused(err) {
			return process.Fatal(fmt.Errorf("mysql.dsn: %w", err))
		}
		return err
	})
	if err != nil {
		return err
	}
	return p.check(ctx, layout)
}

func (p *Parts) check(ctx context.Context, layout store.Layout) error {
	if layout.Namespace != p.Config.Namespace {
		return process.Fatal(fmt.Errorf("namespace: is %q, but the schema belongs to namespace %q", p.Config.Namespace, layout.Namespace))
	}
	if layout.Shards != p.Config.Shards {
		p.Log.WarnContext(ctx, "shards ignored: the schema was made with another number",
			slog.Int("configured", p.Config.Shards), slog.Int("n", layout.Shards))
	}
	return nil
}

// AwaitIndex waits until Redis answers, or returns nil when ctx ends first. Refused credentials are fatal; a memory policy
// that may evict entries is worth a warning.
func (p *Parts) AwaitIndex(ctx context.Context) error {
	err := process.Wait(ctx, p.Log, "redis", func(ctx context.Context) error { return p.refused(p.Index.Ping(ctx)) })
	if err != nil {
		return unlessStopped(ctx, err)
	}
	warning, err := p.Index.CheckPolicy(ctx)
	switch {
	case err != nil:
		p.Log.WarnContext(ctx, "redis memory policy unknown", "err", err)
	case warning != "":
		p.Log.WarnContext(ctx, "redis may lose entries", "warning", warning)
	}
	return nil
}

func (p *Parts) refused(err error) error {
	if index.IsRefused(err) {
		return process.Fatal(fmt.Errorf("redis.username or redis.password: %w", err))
	}
	return err
}

// Shards gives how many shards must be polled: as many as there have ever been, since older rows stay where they are.
func (p *Parts) Shards(ctx context.Context) (int, error) {
	highest, err := p.Store.MaxShard(ctx)
	return highest + 1, err
}

// Scheduler makes the door for services on these parts. reg may be nil.
func (p *Parts) Scheduler(reg prometheus.Registerer) (*schedule.Client, error) {
	return schedule.New(schedule.Config{Shards: p.newShards, Logger: p.Log, Metrics: reg, Tracer: p.Tracer}, p.Store, p.Index, p.Stream)
}

// newShards gives over how many shards new rows spread.
func (p *Parts) newShards(ctx context.Context) (int, error) {
	layout, err := p.Store.Layout(ctx)
	return layout.Shards, err
}

// Away tells whether an error says that a server can't be reached.
func (p *Parts) Away(err error) bool {
	var network net.Error
	return p.Store.Unavailable(err) || index.Away(err) || errors.As(err, &network) || errors.Is(err, io.EOF)
}
