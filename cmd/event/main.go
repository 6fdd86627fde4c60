// Command event fires: elected through ZooKeeper, it claims due tasks from Redis and publishes hints to Kafka. Run it on
// several hosts; one leads.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/internal/config"
	"github.com/duetime/duetime/internal/dispatch"
	"github.com/duetime/duetime/internal/elect"
	"github.com/duetime/duetime/internal/parts"
	"github.com/duetime/duetime/internal/process"
	"github.com/duetime/duetime/internal/store"
)

func main() { os.Exit(process.Main("event", config.DefaultPath, run)) }

func run(ctx context.Context, env *process.Env) error {
	cfg, err := config.Load(env.Flags.Config, env.Flags.Explicit, os.Environ())
	if err != nil {
		return err
	}
	if err := env.SetLog(cfg.Log.Level, cfg.Log.Format); err != nil {
		return err
	}
	if err := env.ServeAdmin(ctx, cfg.Event.Admin); err != nil {
		return err
	}
	p, err := parts.Open(cfg, env.Log(), env.Registry, store.Options{})
	if err != nil {
		return err
	}
	env.OnStop("servers", p.Close)
	leader := promauto.With(env.Registry).NewGauge(prometheus.GaugeOpts{
		Name: "duetime_leader", Help: "1 while this event process leads, else 0.",
	})
	dispatcher, err := dispatch.New(dispatch.Config{
		Lead: cfg.Event.Lead, Now: p.Clock.Now, Shards: p.Shards, Logger: env.Log(), Metrics: env.Registry,
	}, p.Index, p.Stream)
	if err != nil {
		return err
	}
	if err := p.AwaitSchema(ctx); err != nil {
		return err
	}
	elector, err := p.Elector(func(_ string, leading bool, _ int64) { leader.Set(number(leading)) })
	if err != nil {
		return err
	}
	env.OnStop("zookeeper", func(context.Context) error { return elector.Close() })

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.Clock.Run(ctx) })
	group.Go(func() error {
		if err := elector.Ready(ctx); err != nil {
			return stopped(ctx, err)
		}
		env.Ready()
		return nil
	})
	group.Go(func() error { return stopped(ctx, p.AwaitIndex(ctx)) })
	group.Go(func() error {
		return elector.Lead(ctx, "event", func(ctx context.Context, term *elect.Term) error {
			err := dispatcher.Lead(ctx, term.Epoch, term)
			if errors.Is(err, dispatch.ErrFenced) {
				return nil // the elector was told
			}
			return err
		})
	})
	return group.Wait()
}

// stopped drops an error that says only that ctx has ended.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && !process.IsFatal(err) {
		return nil
	}
	return err
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
