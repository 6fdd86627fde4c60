// Command game serves the pet game: a page, and the HTTP API by which it plays. It accepts players' actions while only MySQL answers. Run as many as the
// load needs.
package main

import (
	"context"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime"
	"github.com/duetime/duetime/internal/command"
	"github.com/duetime/duetime/internal/config"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/pet"
	"github.com/duetime/duetime/internal/process"
	"github.com/duetime/duetime/internal/wait"
	"github.com/duetime/duetime/pkg/schedule"
)

func main() { os.Exit(process.Main("game", config.DefaultPath, run)) }

func run(ctx context.Context, env *process.Env) error {
	settings := pet.DefaultSettings()
	cfg, err := command.Configure(ctx, env, func(config.Config) string { return settings.Admin }, settings)
	if err != nil {
		return err
	}
	game := pet.NewGame(settings.Rules())
	client, err := duetime.Open(cfg, duetime.WithLogger(env.Log()), duetime.WithMetrics(env.Registry), duetime.Handlers(game.Handlers()))
	if err != nil {
		return err
	}
	env.OnStop("client", client.Close)
	if err := client.Ready(ctx); err != nil {
		return err
	}
	create := func(ctx context.Context) error {
		err := pet.CreateTables(ctx, client.DB())
		if client.Refused(err) {
			return wait.Fatal(err)
		}
		return err
	}
	if err := wait.For(ctx, env.Log(), "the game's tables", create); err != nil {
		return err
	}
	api := pet.NewAPI(game, client.Client, client, env.Log())
	lessons, err := newLessons(settings.Lessons, cfg)
	if err != nil {
		return err
	}
	env.OnStop("lessons", lessons.close)
	api.Teach(client.DB(), cfg.Daemon.ShortestRetention(), lessons.offered())
	if _, err := env.Serve(ctx, "game", settings.Listen, pet.Site(api, settings.Console)); err != nil {
		return err
	}
	env.Ready()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return client.AwaitIndex(ctx) })
	group.Go(func() error { return client.AwaitStream(ctx) })
	group.Go(func() error { return forgetAnswers(ctx, client, env.Log()) })
	return group.Wait()
}

// forgetAnswers removes the answers that were kept for Idempotency-Keys for more than a day.
func forgetAnswers(ctx context.Context, client *duetime.Client, log *slog.Logger) error {
	return loop.Run(ctx, loop.Config{Name: "old answers", Interval: time.Minute, Jitter: 0.5, Logger: log},
		func(ctx context.Context) (loop.Result, error) {
			const batch = 1000
			var n int64
			err := client.InTx(ctx, func(tx *schedule.Tx) (err error) {
				n, err = pet.PurgeRequests(ctx, tx, batch)
				return err
			})
			return loop.Result{More: n == batch}, err
		})
}
