package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/pkg/console"
)

func (t *tool) group() *cobra.Command {
	cmd := &cobra.Command{
		Use: "group", Short: "Look at groups of tasks", Args: cobra.NoArgs, RunE: needsCommand,
		Long: `Look at groups of tasks.

When the last member of a group has ended, done, dead or cancelled, its follower is scheduled. duetime task list --group NAME lists the
members.`,
	}
	cmd.AddCommand(t.groupGet(), t.groupList())
	return cmd
}

func (t *tool) groupGet() *cobra.Command {
	cmd := &cobra.Command{Use: "get NAME", Short: "Show one group and its counts", Args: cobra.ExactArgs(1)}
	t.jsonFlag(cmd, jsonObject)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return t.with(cmd.Context(), func(c *console.Console) error {
			return showing(t, t.writeGroup)(c.Group(cmd.Context(), args[0]))
		})
	}
	return cmd
}

func (t *tool) groupList() *cobra.Command {
	var open bool
	cmd := &cobra.Command{Use: "list", Short: "List groups, by name", Args: cobra.NoArgs}
	cmd.Flags().BoolVar(&open, "open", false, "only groups that have not ended")
	pages(t, cmd, "groups", t.writeGroups, func(ctx context.Context, c *console.Console, after string, limit int) ([]console.Group, string, error) {
		return c.Groups(ctx, open, after, limit)
	})
	return cmd
}

func (t *tool) writeGroup(g console.Group) error {
	lines := [][]string{
		{"group", oneLine(g.Name)},
		{"state", g.State},
		{"open", strconv.Itoa(g.Open)},
		{"done", strconv.Itoa(g.Done)},
		{"dead", strconv.Itoa(g.Dead)},
		{"cancelled", strconv.Itoa(g.Cancelled)},
		{"follower", g.FollowerID.String()},
		{"its kind", g.FollowerKind},
		{"its owner", oneLine(g.FollowerOwner)},
		{"created", t.stamped(g.CreatedAtMs)},
	}
	if g.EndedAtMs != nil {
		lines = append(lines, []string{"ended", t.stamped(*g.EndedAtMs)})
	}
	if g.Note != "" {
		lines = append(lines, []string{"not scheduled", oneLine(g.Note)})
	}
	return writeTable(t.out, lines)
}

func (t *tool) writeGroups(groups []console.Group) error {
	lines := [][]string{{"GROUP", "STATE", "OPEN", "DONE", "DEAD", "CANCELLED", "FOLLOWER"}}
	for _, g := range groups {
		lines = append(lines, []string{
			oneLine(g.Name), g.State, strconv.Itoa(g.Open), strconv.Itoa(g.Done), strconv.Itoa(g.Dead), strconv.Itoa(g.Cancelled), g.FollowerID.String(),
		})
	}
	return writeTable(t.out, lines)
}
