// Command daemon repairs: elected through ZooKeeper, it keeps the index in Redis equal to the truth in MySQL. Run two;
// one leads.
package main

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/internal/config"
	"github.com/duetime/duetime/internal/elect"
	"github.com/duetime/duetime/internal/parts"
	"github.com/duetime/duetime/internal/process"
	"github.com/duetime/duetime/internal/reconcile"
	"github.com/duetime/duetime/internal/store"
)

func main() { os.Exit(process.Main("daemon", config.DefaultPath, run)) }

func run(ctx context.Context, env *process.Env) error {
	cfg, err := config.Load(env.Flags.Config, env.Flags.Explicit, os.Environ())
	if err != nil {
		return err
	}
	if err := env.SetLog(cfg.Log.Level, cfg.Log.Format); err != nil {
		return err
	}
	if err := env.ServeAdmin(ctx, cfg.Daemon.Admin); err != nil {
		return err
	}
	p, err := parts.Open(cfg, env.Log(), env.Registry, store.Options{})
	if err != nil {
		return err
	}
	env.OnStop("servers", p.Close)
	reconciler, err := reconcile.New(reconcile.Config{
		Interval: cfg.Daemon.Interval, Lookahead: cfg.Daemon.Lookahead, Grace: cfg.Daemon.Grace,
		Lead: cfg.Event.Lead, Retention: cfg.Daemon.Retention,
		Shards: p.Shards, Logger: env.Log(), Metrics: env.Registry,
	}, p.Store, p.Index, p)
	if err != nil {
		return err
	}
	if err := p.AwaitSchema(ctx); err != nil {
		return err
	}
	elector, err := p.Elector(nil)
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
		return elector.Lead(ctx, "daemon", func(ctx context.Context, term *elect.Term) error {
			err := reconciler.Lead(ctx, term.Epoch, term)
			if errors.Is(err, reconcile.ErrFenced) {
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
