// Command worker runs the pet game's effects: it ends meals, and starts meals that an auto-feed card pays for. Beside them it
// delivers the kinds of the section deliver of the configuration by HTTP. The setting worker.queues keeps it to the queues of
// these. Run as many as the load needs.
package main

import (
	"context"
	"os"

	"github.com/duetime/duetime"
	"github.com/duetime/duetime/internal/command"
	"github.com/duetime/duetime/internal/config"
	"github.com/duetime/duetime/internal/pet"
	"github.com/duetime/duetime/internal/process"
)

func main() { os.Exit(process.Main("worker", config.DefaultPath, run)) }

func run(ctx context.Context, env *process.Env) error {
	settings, push := pet.DefaultSettings(), config.DefaultDeliver()
	cfg, err := command.Configure(ctx, env, func(c config.Config) string { return c.Worker.Admin }, settings, push)
	if err != nil {
		return err
	}
	env.SetDrain(cfg.Worker.Drain)
	client, err := duetime.Open(cfg, duetime.WithLogger(env.Log()), duetime.WithMetrics(env.Registry), duetime.OnJoined(env.Ready))
	if err != nil {
		return err
	}
	env.OnStop("client", client.Close)
	env.SetAlive(client.Alive)
	mux := pet.NewGame(settings.Rules()).Handlers()
	if err := deliverKinds(env, mux, cfg.Namespace, push); err != nil {
		return err
	}
	return client.Work(ctx, mux)
}
