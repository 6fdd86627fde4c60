package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/demo"
)

func (t *tool) demo() *cobra.Command {
	cfg := demo.Config{Out: t.out, Err: t.errs}
	cmd := &cobra.Command{
		Use: "demo", Short: "Play the pet game on the whole pipeline in this process, and break it meanwhile", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := demo.Run(cmd.Context(), cfg)
			if errors.Is(err, demo.ErrBroken) {
				return exit{1, err}
			}
			return err
		},
	}
	cmd.Flags().DurationVar(&cfg.For, "for", 30*time.Second, "how long to play, at least 10s")
	cmd.Flags().IntVar(&cfg.Pets, "pets", 200, "how many pets play")
	cmd.Flags().DurationVar(&cfg.Meal, "meal", 3*time.Second, "how long a meal takes")
	cmd.Flags().BoolVar(&cfg.Serve, "serve", false, "stay up after the report, with the game's API at the URL printed")
	cmd.Flags().BoolVar(&cfg.JSON, "json", false, "report one JSON object on the last line")
	return cmd
}
