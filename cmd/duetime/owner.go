package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/pkg/console"
)

func (t *tool) owner() *cobra.Command {
	cmd := &cobra.Command{
		Use: "owner", Short: "Block owners", Args: cobra.NoArgs, RunE: needsCommand,
		Long: `Block owners.

A blocked owner has no tasks and gets none: its pending tasks are cancelled, its recurrences are stopped, and what services schedule
for it is refused.`,
	}
	cmd.AddCommand(t.ownerBlock(), t.ownerUnblock(), t.ownerBlocked())
	return cmd
}

func (t *tool) ownerBlock() *cobra.Command {
	cmd := &cobra.Command{
		Use: "block OWNER", Short: "Cancel the owner's tasks, and refuse what is scheduled for it; asks on a terminal", Args: cobra.ExactArgs(1),
		Long: `Cancel the owner's tasks, and refuse what is scheduled for it; asks on a terminal.

After an error run the command again: the owner may be blocked already, with some of its tasks left.`,
	}
	t.jsonFlag(cmd, jsonObject)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := t.confirmOnTerminal(cmd.Context(), "block owner "+args[0]+", cancel its tasks and stop its recurrences?"); err != nil {
			return err
		}
		return t.with(cmd.Context(), func(c *console.Console) error {
			n, err := c.BlockOwner(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return show(t, map[string]int{"cancelled": n}, func(map[string]int) error {
				_, err := fmt.Fprintf(t.out, "blocked: %s %s cancelled\n", thousands(n), plural(n, "task"))
				return err
			})
		})
	}
	return cmd
}

func (t *tool) ownerUnblock() *cobra.Command {
	return &cobra.Command{
		Use: "unblock OWNER", Short: "Let tasks be scheduled for the owner again; what was cancelled stays so", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.with(cmd.Context(), func(c *console.Console) error { return c.UnblockOwner(cmd.Context(), args[0]) })
		},
	}
}

func (t *tool) ownerBlocked() *cobra.Command {
	cmd := &cobra.Command{Use: "blocked", Short: "List blocked owners, by name", Args: cobra.NoArgs}
	pages(t, cmd, "owners", t.writeBlocks, func(ctx context.Context, c *console.Console, after string, limit int) ([]console.Block, string, error) {
		page, err := c.BlockedOwners(ctx, after, limit)
		return page.Blocks, page.Next, err
	})
	return cmd
}

func (t *tool) writeBlocks(blocks []console.Block) error {
	lines := [][]string{{"OWNER", "BLOCKED", "BY"}}
	for _, b := range blocks {
		lines = append(lines, []string{oneLine(b.Owner), t.stamped(b.AtMs), oneLine(b.Actor)})
	}
	return writeTable(t.out, lines)
}
