// Command event is elected through ZooKeeper. It claims due entries from Redis and publishes hints to Kafka. Run it on
// several hosts; one leads.
package main

import (
	"context"
	"os"

	"github.com/duetime/duetime/internal/command"
	"github.com/duetime/duetime/internal/config"
	"github.com/duetime/duetime/internal/dispatch"
	"github.com/duetime/duetime/internal/elect"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/parts"
	"github.com/duetime/duetime/internal/process"
	"github.com/duetime/duetime/internal/store"
)

func main() { os.Exit(process.Main("event", config.DefaultPath, run)) }

func run(ctx context.Context, env *process.Env) error {
	cfg, err := command.Configure(ctx, env, func(c config.Config) string { return c.Event.Admin })
	if err != nil {
		return err
	}
	p, err := parts.Open(cfg, env.Log(), env.Registry, store.Options{})
	if err != nil {
		return err
	}
	env.OnStop("servers", p.Close)
	dispatcher, err := dispatch.New(dispatch.Config{
		Lead: cfg.Event.Lead, Now: p.Clock.Now, Layout: p.Store.Layout, Logger: env.Log(), Metrics: env.Registry,
		Loops: loop.NewSuccesses(env.Registry), Queues: cfg.Queues,
		Added: func(ctx context.Context) ([]string, error) {
			queues, err := p.Store.Queues(ctx)
			if err == nil {
				p.Stream.SetFurther(queues) // a topic that is lost is made anew
			}
			return queues, err
		},
	}, p.Index, p.Stream)
	if err != nil {
		return err
	}
	return command.Stand(ctx, env, p, command.Candidate{
		Name: "event",
		Lead: func(ctx context.Context, term *elect.Term) error { return dispatcher.Lead(ctx, term.Epoch, term) },
	})
}
