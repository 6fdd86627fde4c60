package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

func (t *tool) bulkList() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List operations, the newest first", Args: cobra.NoArgs}
	shows(t, cmd, (*console.Console).Operations, t.writeOperations)
	return cmd
}

func (t *tool) writeOperations(all []console.Operation) error {
	const textColumn = 4
	width, narrow := t.width()
	lines := [][]string{{"OPERATION", "STATE", "CHANGED", "BEGUN", "WHAT"}}
	for _, o := range all {
		begun := t.stamped(o.CreatedAtMs)
		if narrow {
			begun = sinceNow(o.CreatedAtMs)
		}
		lines = append(lines, []string{o.ID.String(), o.State.String(), changedOf(o), begun, oneLine(o.Text)})
	}
	if narrow {
		return writeFittedTable(t.out, lines, width, textColumn)
	}
	return writeTable(t.out, lines)
}

// changedOf is how many tasks were changed, of how many if a preview has counted them.
func changedOf(o console.Operation) string {
	if o.Matched == 0 {
		return thousands(o.Changed)
	}
	return thousands(o.Changed) + "/" + thousands(o.Matched)
}

func (t *tool) bulkGet() *cobra.Command {
	cmd := &cobra.Command{
		Use: "get [ID]", Short: "Show an operation, how far it is, and its life", Args: cobra.MaximumNArgs(1),
		Long: `Show an operation, how far it is, and its life.

Without an id it is the one that is running or paused.`,
	}
	t.jsonFlag(cmd, jsonObject)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return t.withOperation(cmd.Context(), args, func(c *console.Console, id task.ID) error {
			return showing(t, t.writeOperationLife)(c.Operation(cmd.Context(), id, rateTime))
		})
	}
	return cmd
}

// withOperation runs fn on a console and the operation's id: the one that was given, or the only one that is not over.
func (t *tool) withOperation(ctx context.Context, args []string, fn func(c *console.Console, id task.ID) error) error {
	if len(args) > 0 {
		return t.withTask(ctx, args[0], fn)
	}
	return t.with(ctx, func(c *console.Console) error {
		id, err := c.OnlyOperation(ctx)
		if err != nil {
			return err
		}
		return fn(c, id)
	})
}

// operationChange changes the state of an operation.
type operationChange func(*console.Console, context.Context, task.ID) (console.Operation, error)

func (t *tool) bulkChange(use, short string, change operationChange) *cobra.Command {
	cmd := &cobra.Command{
		Use: use + " [ID]", Short: short, Args: cobra.MaximumNArgs(1),
		Long: short + `.

Without an id it is the one that is running or paused.`,
	}
	t.jsonFlag(cmd, jsonObject)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return t.withOperation(cmd.Context(), args, func(c *console.Console, id task.ID) error {
			return showing(t, t.writeOperation)(change(c, cmd.Context(), id))
		})
	}
	return cmd
}

func (t *tool) bulkStop() *cobra.Command {
	cmd := t.bulkChange("stop", "End an operation before its last task; asks on a terminal", (*console.Console).StopOperation)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := t.confirmOnTerminal(cmd.Context(), "stop the operation? What it has changed stays so"); err != nil {
			return err
		}
		return run(cmd, args)
	}
	return cmd
}

func (t *tool) writeOperation(o console.Operation) error {
	return t.writeOperationFields(console.OperationLife{Operation: o})
}

// writeOperationLife writes one operation and its history.
func (t *tool) writeOperationLife(life console.OperationLife) error {
	if err := t.writeOperationFields(life); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(t.out)
	return t.writeHistory(life.History)
}

// writeOperationFields writes a line for each field.
func (t *tool) writeOperationFields(o console.OperationLife) error {
	var lines [][]string
	line := func(name, text string) {
		if text != "" {
			lines = append(lines, []string{name, oneLine(text)})
		}
	}
	moment := func(ms int64) string { return fmt.Sprintf("%s (%s)", t.stamped(ms), sinceNow(ms)) }
	line("operation", o.ID.String())
	line("what", o.Text)
	line("state", o.State.String())
	line("error", o.Error)
	line("progress", changedText(o.Operation))
	if o.Matched > 0 {
		line("counted", thousands(o.Matched)+" before it was made")
	}
	if o.Rate > 0 {
		line("rate", thousands(o.Rate)+" a second at most")
	}
	if o.PerSecond > 0 {
		line("speed", fmt.Sprintf("%.0f a second", o.PerSecond))
	}
	if left := o.Remaining(); left > 0 {
		line("left", fmt.Sprintf("%s, about %v", thousands(o.Left), left.Round(time.Second)))
	}
	line("by", o.Actor)
	line("begun", moment(o.CreatedAtMs))
	if o.FinishedAt != nil {
		line("finished", moment(*o.FinishedAt))
	}
	return writeTable(t.out, lines)
}
