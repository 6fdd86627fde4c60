package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/parts"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/migrations"
)

func (t *tool) migrate() *cobra.Command {
	cmd := &cobra.Command{
		Use: "migrate", Short: "Make or change duetime's tables, its layout and its topics", Args: cobra.NoArgs, RunE: needsCommand,
	}
	cmd.AddCommand(
		&cobra.Command{
			Use: "up", Short: "Bring the schema and the topics up to date; may be repeated", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return t.on(func(p *parts.Parts) error { return t.migrateUp(cmd.Context(), p) })
			},
		},
		&cobra.Command{
			Use: "status", Short: "Show which migrations were applied", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return t.on(func(p *parts.Parts) error { return t.migrateStatus(cmd.Context(), p) })
			},
		},
		&cobra.Command{
			Use: "print", Short: "Write the SQL of all migrations", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				return t.on(func(p *parts.Parts) error { return p.Store.PrintMigrations(t.out, migrations.Files) })
			},
		},
	)
	return cmd
}

// migrateUp ensures the topics even if migrating the schema fails, so that one run shows all mistakes.
func (t *tool) migrateUp(ctx context.Context, p *parts.Parts) error {
	var bar *progress
	schema := p.Store.MigrateShowing(ctx, migrations.Files, p.Config.Namespace, p.Config.Shards, func(done, missing int) {
		if bar == nil && missing > 0 {
			bar = t.progress("migrate", missing)
		}
		if bar != nil {
			bar.set(done)
		}
	})
	if bar != nil {
		bar.end()
	}
	if schema == nil {
		_, _ = fmt.Fprintln(t.out, "schema is up to date")
		schema = t.warnShards(ctx, p)
	}
	if errors.Is(schema, store.ErrNamespace) {
		return schema // topics in that namespace's name must not be created either
	}
	topics := p.Stream.Ensure(ctx)
	if topics == nil {
		_, _ = fmt.Fprintln(t.out, "topics are there")
	}
	return errors.Join(schema, topics)
}

// warnShards warns that a shard count other than the schema's is ignored.
func (t *tool) warnShards(ctx context.Context, p *parts.Parts) error {
	layout, err := p.Store.Layout(ctx)
	if err == nil && layout.Shards != p.Config.Shards {
		_, _ = fmt.Fprintf(t.errs, "warning: shards: %d is ignored, the schema was made with %d\n", p.Config.Shards, layout.Shards)
	}
	return err
}

func (t *tool) migrateStatus(ctx context.Context, p *parts.Parts) error {
	list, err := p.Store.MigrationStatus(ctx, migrations.Files)
	if err != nil {
		return err
	}
	lines := [][]string{{"VERSION", "APPLIED", "FILE"}}
	for _, m := range list {
		applied := "no"
		if !m.Applied.IsZero() {
			applied = m.Applied.In(t.location()).Format(time.RFC3339)
		}
		lines = append(lines, []string{strconv.FormatInt(m.Version, 10), applied, m.Name})
	}
	return writeTable(t.out, lines)
}
