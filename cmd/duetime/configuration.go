package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/config"
)

func (t *tool) configuration() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Check and print the configuration", Args: cobra.NoArgs, RunE: needsCommand}
	load := func() (config.Config, error) { return config.Load(t.config, t.explicit, os.Environ()) }
	cmd.AddCommand(
		&cobra.Command{
			Use: "check", Short: "Read the file and the environment, and say what is wrong; asks no server", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				if _, err := load(); err != nil {
					return err
				}
				_, err := fmt.Fprintln(t.out, "configuration is right")
				return err
			},
		},
		&cobra.Command{
			Use: "print", Short: "Print every key with the value that is in force, secrets masked", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				cfg, err := load()
				if err != nil {
					return err
				}
				_, err = fmt.Fprint(t.out, cfg.String())
				return err
			},
		},
	)
	return cmd
}
