package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/demo"
	"github.com/duetime/duetime/internal/pet"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/console"
)

// addGame adds the pet game's section and audit. Apart from the demo command, only this file knows the game.
func (t *tool) addGame() {
	t.sections = append(t.sections, pet.DefaultSettings())
	t.audits = append(t.audits, journalAudit())
}

// journalAudit adds the game's journal to verify.
func journalAudit() console.Audit {
	return console.Audit{
		Subject: "the game's journal",
		Help: `The journal of the pet game. lost, duplicate, early: what it shows, where that table is and may be read; otherwise they are
"not checked" (null in JSON), which leaves the exit code alone.`,
		Counts: []string{"lost", "duplicate", "early"},
		Run: func(ctx context.Context, on console.AuditSource) (counts []int64, unchecked string, err error) {
			there, err := pet.HasJournal(ctx, on.DB)
			if err != nil {
				return nil, "", err
			}
			if !there { // without any right on the table the server hides it
				return nil, "no pet_journal in this schema, or no right to see it", nil
			}
			found, err := pet.Audit(ctx, on.DB, on.Retention, on.Tasks)
			if store.Classify(err).Refused() {
				return nil, "no right to read pet_journal", nil
			}
			return []int64{found.Lost, found.Duplicate, found.Early}, "", err
		},
	}
}

func (t *tool) demo() *cobra.Command {
	cfg := demo.Config{Out: t.out, Err: t.errs}
	cmd := &cobra.Command{
		Use: "demo", Short: "Play the pet game in this process, on SQLite, and restart it meanwhile", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := demo.Run(cmd.Context(), cfg)
			if errors.Is(err, demo.ErrBroken) {
				return exit{1, err}
			}
			return err
		},
	}
	cmd.Flags().DurationVar(&cfg.For, "for", 30*time.Second, "how long to play, 10s to 1h")
	cmd.Flags().IntVar(&cfg.Pets, "pets", 200, "how many pets play")
	cmd.Flags().DurationVar(&cfg.Meal, "meal", 3*time.Second, "how long a meal takes")
	cmd.Flags().BoolVar(&cfg.Serve, "serve", false, "go on after the report among 30 players, for you to play on the game's page and to look at the console")
	cmd.Flags().BoolVar(&cfg.JSON, "json", false, "report one JSON object on the last line")
	return cmd
}
