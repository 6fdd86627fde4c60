// Command api serves duetime to services in any language, by gRPC, gRPC-Web and JSON over HTTP. It answers while only MySQL does.
// Run as many as the load needs.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime"
	"github.com/duetime/duetime/internal/api"
	"github.com/duetime/duetime/internal/command"
	"github.com/duetime/duetime/internal/config"
	"github.com/duetime/duetime/internal/presence"
	"github.com/duetime/duetime/internal/process"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/trust"
)

func main() { os.Exit(process.Main("api", config.DefaultPath, run)) }

func run(ctx context.Context, env *process.Env) error {
	section := config.DefaultAPI()
	cfg, err := command.Configure(ctx, env, func(config.Config) string { return section.Admin }, section)
	if err != nil {
		return err
	}
	tokens, err := readTokens(section)
	if err != nil {
		return err
	}
	client, err := duetime.Open(cfg, duetime.WithLogger(env.Log()), duetime.WithMetrics(env.Registry))
	if err != nil {
		return err
	}
	env.OnStop("client", client.Close)
	rows := store.On(client.DB(), store.MySQL)
	served, err := api.New(api.Config{
		Tokens: tokens, Origins: section.Origins, Logger: env.Log(), Metrics: env.Registry, Unavailable: client.Unavailable,
		Full: func(err error) bool { return store.Classify(err) == store.Full },
		Deployment: func(ctx context.Context) (string, error) {
			layout, err := rows.RecentLayout(ctx)
			return layout.Deployment, err
		},
	}, client.Client, client.Console())
	if err != nil {
		return fmt.Errorf("api.%w", err)
	}
	server, err := newServer(section.TLS, served)
	if err != nil {
		return err
	}
	if err := client.Ready(ctx); err != nil {
		return err
	}
	defer presence.Start(presence.Config{Role: "api", Configured: cfg.Queues, Logger: env.Log()}, rows).Stop()
	if _, err := env.ServeBy(ctx, server, "api", section.Listen); err != nil {
		return err
	}
	env.Ready()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return client.AwaitIndex(ctx) })
	group.Go(func() error { return client.AwaitStream(ctx) })
	group.Go(func() error { return served.Run(ctx) })
	return group.Wait()
}

func readTokens(section *config.API) ([]api.Token, error) {
	text, err := section.TokensSecret()
	if err != nil || text == "" {
		return nil, err
	}
	tokens, err := api.ParseTokens(string(text))
	if err != nil {
		return nil, fmt.Errorf("api.tokens: %w", err)
	}
	return tokens, nil
}

// newServer makes a server that speaks HTTP/1 and HTTP/2, which gRPC needs: by TLS, or else in plain text.
func newServer(files config.ServerTLS, h http.Handler) (*http.Server, error) {
	server := process.NewServer(h)
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	if files.CertFile == "" {
		server.Protocols.SetUnencryptedHTTP2(true)
		return server, nil
	}
	server.Protocols.SetHTTP2(true)
	var err error
	server.TLSConfig, err = trust.Server("api.tls", files.CertFile, files.KeyFile)
	return server, err
}
