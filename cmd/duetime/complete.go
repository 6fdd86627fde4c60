package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/parts"
	"github.com/duetime/duetime/internal/store"
)

// words returns completions for one place of the command line. It returns none if the configuration is wrong or a server
// doesn't answer, and never an error.
type words = func() []string

func fixed(all ...string) words { return func() []string { return all } }

// complete adds completions to a flag.
func complete(cmd *cobra.Command, flag string, all words) {
	err := cmd.RegisterFlagCompletionFunc(flag, offer(all))
	if err != nil {
		panic(err) // no flag has this name
	}
}

func offer(all words) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return all(), cobra.ShellCompDirectiveNoFileComp
	}
}

// first completes the first argument.
func first(all words) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return offer(all)(cmd, args, begun)
	}
}

// queues reads those of the configuration, and those that operators have added.
func (t *tool) queues() []string {
	added := t.words(func(ctx context.Context, p *parts.Parts) ([]string, error) { return p.Store.Queues(ctx) })
	cfg, err := t.load()
	if err != nil {
		return nil
	}
	return append(cfg.Queues, added...)
}

const (
	wordsTimeout = 500 * time.Millisecond // a shell waits this long for completions
	kindsRows    = 1000                   // rows that changed last
)

// kinds reads the kinds of the tasks that changed last.
func (t *tool) kinds() []string {
	return t.words(func(ctx context.Context, p *parts.Parts) ([]string, error) { return p.Store.Kinds(ctx, kindsRows) })
}

// words reads completions from a server.
func (t *tool) words(read func(ctx context.Context, p *parts.Parts) ([]string, error)) []string {
	cfg, err := t.load()
	if err != nil {
		return nil
	}
	p, err := parts.Open(cfg, slog.New(slog.DiscardHandler), nil, store.Options{})
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), wordsTimeout)
	defer cancel()
	found, err := read(ctx, p)
	if closed := p.Close(ctx); err != nil || closed != nil {
		return nil
	}
	return found
}
