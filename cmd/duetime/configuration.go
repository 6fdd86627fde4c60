package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/command"
	"github.com/duetime/duetime/internal/config"
	"github.com/duetime/duetime/internal/parts"
)

const serverTimeout = 5 * time.Second // after it a server counts as away

func (t *tool) configuration() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Check and print the configuration", Args: cobra.NoArgs, RunE: needsCommand}
	var servers bool
	check := &cobra.Command{
		Use: "check [--servers]", Short: "Read the file and the environment, and say what is wrong; asks no server without --servers", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := t.load()
			if err != nil {
				return err
			}
			if host := parts.Cleartext(cfg); host != "" {
				_, _ = fmt.Fprintf(t.errs, "warning: mysql.dsn: the password travels to %s without TLS, set mysql.tls.ca_file\n", host)
			}
			if servers {
				return t.on(func(p *parts.Parts) error { return t.checkServers(cmd.Context(), p) })
			}
			_, err = fmt.Fprintln(t.out, "configuration is right")
			return err
		},
	}
	check.Flags().BoolVar(&servers, "servers", false, "also ask MySQL, Redis, Kafka and ZooKeeper whether they are there and set up so that the promises hold")
	cmd.AddCommand(
		check,
		&cobra.Command{
			Use: "print", Short: "Print every key with the value that is in force, secrets masked, but for the section api", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				cfg, err := t.load()
				if err != nil {
					return err
				}
				_, err = fmt.Fprint(t.out, config.Print(cfg, t.sections...))
				return err
			},
		},
	)
	return cmd
}

// checkServers asks all servers even if the first is away, so that one run shows all mistakes.
func (t *tool) checkServers(ctx context.Context, p *parts.Parts) error {
	var wrong []error
	for _, server := range []struct {
		name string
		ask  func(ctx context.Context) error
	}{
		{"mysql", func(ctx context.Context) error { return t.checkMySQL(ctx, p) }},
		{"redis", func(ctx context.Context) error {
			if err := p.Index.Ping(ctx); err != nil {
				return err
			}
			policy, err := p.Index.CheckPolicy(ctx)
			if err == nil && policy != "" {
				err = errors.New("redis.addrs: " + policy)
			}
			return err
		}},
		{"kafka", p.Stream.Ping},
		{"zookeeper", func(ctx context.Context) error { return command.CheckElector(ctx, p) }},
	} {
		ctx, cancel := context.WithTimeout(ctx, serverTimeout)
		err := server.ask(ctx)
		cancel()
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		_, _ = fmt.Fprintln(t.out, server.name+" is right")
	}
	return errors.Join(wrong...)
}

func (t *tool) checkMySQL(ctx context.Context, p *parts.Parts) error {
	if err := p.CheckMySQL(ctx); err != nil {
		return err
	}
	if err := p.Store.CheckLocks(ctx); err != nil {
		return err
	}
	product, err := p.Store.Product(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(t.out, "mysql is "+product)
	return err
}
