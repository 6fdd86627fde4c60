package main

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/duetime/duetime/internal/elect"
	"github.com/duetime/duetime/internal/inside"
	"github.com/duetime/duetime/internal/parts"
	"github.com/duetime/duetime/internal/process"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/witness"
	"github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/schedule"
)

const (
	witnessConcurrency = 2 // few of its tasks are due at a time
	witnessTimeout     = 5 * time.Second
)

type leading = func(ctx context.Context, term *elect.Term) error

// witnessed has the witness play and judge while this process leads, and runs the witness's tasks. It does so here and not in
// workers: no service's process has a further consumer, and a worker of another release never meets these tasks.
func witnessed(env *process.Env, p *parts.Parts, lead leading) (leading, error) {
	cfg := worker.Config{
		Concurrency: witnessConcurrency, HandlerTimeout: witnessTimeout, Drain: time.Second, Late: cmp.Or(p.Config.Worker.Late, -1),
		Tracer: noop.NewTracerProvider(),
	}
	client, err := schedule.New(schedule.Config{Layout: p.Store.RecentLayout, Actor: "witness", Logger: env.Log(), Tracer: cfg.Tracer}, p.Store, p.Index, p.Stream)
	if err != nil {
		return nil, err
	}
	env.OnStop("witness", func(ctx context.Context) error { client.Close(ctx); return nil })
	rows, err := parts.OpenStore(p.Config, store.ForWorker(1, witnessConcurrency, witnessTimeout))
	if err != nil {
		return nil, err
	}
	env.OnStop("witness's connections", func(context.Context) error { return rows.Close() })
	w := witness.New(witness.Config{
		Now: p.Clock.Now, Retention: p.Config.Daemon.Retention, Logger: env.Log(), Metrics: env.Registry,
	}, p.Store, client, p.Index)
	mux, writer := witness.Handlers(rows.InsertEffect), schedule.InsideClient(inside.Key{}, client).Ledger().Writer()
	run := func(ctx context.Context) {
		engine, err := worker.New(cfg, mux, rows, p.Stream, writer, p.Stream)
		if err == nil {
			err = engine.Run(ctx)
		}
		if err != nil && ctx.Err() == nil {
			env.Log().WarnContext(ctx, "the witness's tasks don't run", slog.Any("err", err))
		}
	}
	return func(ctx context.Context, term *elect.Term) error {
		witnessing, stop := context.WithCancel(ctx)
		var playing sync.WaitGroup
		playing.Go(func() { w.Lead(witnessing, term.Epoch) })
		playing.Go(func() { run(witnessing) })
		defer playing.Wait()
		defer stop()
		return lead(ctx, term)
	}, nil
}
