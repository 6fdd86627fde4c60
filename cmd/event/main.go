// Command event fires: elected through ZooKeeper, it claims due tasks from Redis and publishes hints to Kafka. Run it on
// several hosts; one leads.
package main

import (
	"context"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/duetime/duetime/internal/config"
	"github.com/duetime/duetime/internal/dispatch"
	"github.com/duetime/duetime/internal/elect"
	"github.com/duetime/duetime/internal/parts"
	"github.com/duetime/duetime/internal/process"
	"github.com/duetime/duetime/internal/store"
)

func main() { os.Exit(process.Main("event", config.DefaultPath, run)) }

func run(ctx context.Context, env *process.Env) error {
	cfg, err := parts.Configure(ctx, env, func(c config.Config) string { return c.Event.Admin })
	if err != nil {
		return err
	}
	p, err := parts.Open(cfg, env.Log(), env.Registry, store.Options{})
	if err != nil {
		return err
	}
	env.OnStop("servers", p.Close)
	dispatcher, err := dispatch.New(dispatch.Config{
		Lead: cfg.Event.Lead, Now: p.Clock.Now, Shards: p.Shards, Logger: env.Log(), Metrics: env.Registry,
	}, p.Index, p.Stream)
	if err != nil {
		return err
	}
	leader := promauto.With(env.Registry).NewGauge(prometheus.GaugeOpts{
		Name: "duetime_leader", Help: "1 while this event process leads, else 0.",
	})
	return p.Stand(ctx, env, parts.Candidate{
		Name: "event",
		Lead: func(ctx context.Context, term *elect.Term) error { return dispatcher.Lead(ctx, term.Epoch, term) },
		OnChange: func(leading bool) {
			leader.Set(0)
			if leading {
				leader.Set(1)
			}
		},
	})
}
