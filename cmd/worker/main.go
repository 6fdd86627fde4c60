// Command worker runs the pet game's effects: it ends meals, and starts meals that an auto-feed card pays for. Run as
// many as the load needs.
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
	settings := pet.DefaultSettings()
	cfg, err := command.Configure(ctx, env, func(c config.Config) string { return c.Worker.Admin }, settings)
	if err != nil {
		return err
	}
	env.SetDrain(cfg.Worker.Drain)
	client, err := duetime.Open(cfg, duetime.WithLogger(env.Log()), duetime.WithMetrics(env.Registry), duetime.OnJoined(env.Ready))
	if err != nil {
		return err
	}
	env.OnStop("client", client.Close)
	game := pet.NewGame(settings.Rules(), client.ForUpdate())
	return client.Work(ctx, game.Handlers())
}
