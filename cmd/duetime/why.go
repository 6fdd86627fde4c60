package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

func (t *tool) why() *cobra.Command {
	cmd := &cobra.Command{
		Use: "why [ID]", Short: "Say why tasks are late, or what a task waits for, and what to do next", Args: cobra.MaximumNArgs(1),
		Long: `Say why tasks are late, or that none is: by rules in a fixed order, with evidence, and with what to do next. Servers and workers that
are away are answers too, and leave the exit code at 0. docs/WHY.md lists the rules. With an id, it says what that task waits for.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, id := cmd.Context(), task.ID{}
			if len(args) > 0 {
				var err error
				if id, err = task.ParseID(args[0]); err != nil {
					return err
				}
			}
			opening, cancel := context.WithTimeout(ctx, serverTimeout) // a server that hangs is an answer
			defer cancel()
			return t.with(opening, func(c *console.Console) error {
				said, err := c.Why(ctx)
				if err == nil && len(args) > 0 {
					said, err = said.Task(ctx, id)
				}
				return showing(t, t.writeWhy)(said, err)
			})
		},
	}
	t.jsonFlag(cmd, jsonObject)
	return cmd
}

func (t *tool) writeWhy(said console.Explanation) error {
	var lines []string
	for i, a := range said.Answers {
		if i == 1 {
			lines = append(lines, "", "Besides:")
		}
		lines = append(lines, a.Sentence)
		if a.Act != "" {
			lines = append(lines, "  next: "+a.Act)
		}
		if a.Runbook != "" {
			lines = append(lines, "  runbook: docs/runbooks/"+a.Runbook+".md")
		}
	}
	if len(said.Unread) > 0 {
		lines = append(lines, "", "Not read: "+strings.Join(said.Unread, ", ")+".")
	}
	for i, line := range lines {
		lines[i] = printable(line)
	}
	_, err := fmt.Fprintln(t.out, strings.Join(lines, "\n"))
	return err
}
