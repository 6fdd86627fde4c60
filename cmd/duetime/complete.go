package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/parts"
	"github.com/duetime/duetime/internal/store"
)

// words returns what may stand at a place of the command line, for the shell to offer. A configuration or a server that does
// not answer means nothing to offer, never an error.
type words = func() []string

func fixed(all ...string) words { return func() []string { return all } }

// complete offers words for a flag.
func complete(cmd *cobra.Command, flag string, all words) {
	err := cmd.RegisterFlagCompletionFunc(flag, offer(all))
	if err != nil {
		panic(err) // there is no such flag
	}
}

func offer(all words) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return all(), cobra.ShellCompDirectiveNoFileComp
	}
}

// first offers words for the first argument.
func first(all words) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return offer(all)(cmd, args, begun)
	}
}

func (t *tool) queues() []string {
	cfg, err := t.load()
	if err != nil {
		return nil
	}
	return cfg.Queues
}

const (
	kindsTimeout = 500 * time.Millisecond // a shell waits for it
	kindsRows    = 1000                   // that changed last
)

// kinds reads the kinds of the tasks that changed last.
func (t *tool) kinds() []string {
	cfg, err := t.load()
	if err != nil {
		return nil
	}
	p, err := parts.Open(cfg, slog.New(slog.DiscardHandler), nil, store.Options{})
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), kindsTimeout)
	defer cancel()
	kinds, err := p.Store.Kinds(ctx, kindsRows)
	if closed := p.Close(ctx); err != nil || closed != nil {
		return nil
	}
	return kinds
}
