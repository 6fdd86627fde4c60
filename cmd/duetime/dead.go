package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

func (t *tool) dead() *cobra.Command {
	cmd := &cobra.Command{
		Use: "dead", Short: "Look at dead tasks, retry them or take them off the list", Args: cobra.NoArgs, RunE: needsCommand,
	}
	cmd.AddCommand(t.deadList(), t.deadBulk(bulk{
		use: "retry", short: "Make dead tasks pending again, due now, with all their attempts", past: "retried",
		do: (*console.Console).RetryDead,
	}), t.deadBulk(bulk{
		use: "discard", short: "Take dead tasks off the list: they end as cancelled", past: "discarded",
		do: (*console.Console).DiscardDead,
	}))
	return cmd
}

func (t *tool) deadList() *cobra.Command {
	var f filterFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List dead tasks with their last error", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.list(cmd.Context(), f, new(task.Dead), asJSON, t.writeDead)
		},
	}
	t.addListFlags(cmd, &f, &asJSON)
	return cmd
}

func (t *tool) writeDead(rows []console.Task) error {
	if width, ok := t.width(); ok {
		return t.writeNarrowDead(rows, width)
	}
	lines := [][]string{{"TASK", "KIND", "OWNER", "DIED", "ATTEMPT", "ERROR"}}
	for _, row := range rows {
		lines = append(lines, []string{row.ID.String(), row.Kind, row.Owner, died(row, t.stamped), attempts(row), oneLine(row.LastError)})
	}
	return writeTable(t.out, lines)
}

// writeNarrowDead writes a table that fits the terminal: the kind is cut, and the error gets the rest of the line.
func (t *tool) writeNarrowDead(rows []console.Task, width int) error {
	const kindWidth, errorColumn = 14, 3
	lines := [][]string{{"TASK", "KIND", "DIED", "ERROR"}}
	for _, row := range rows {
		lines = append(lines, []string{row.ID.String(), cut(printable(row.Kind), kindWidth), died(row, sinceNow), oneLine(row.LastError)})
	}
	return writeFittedTable(t.out, lines, width, errorColumn)
}

// died returns when a task died; that may be unknown for a row that another program wrote.
func died(row console.Task, format func(ms int64) string) string {
	if row.FinishedAt == nil {
		return "unknown"
	}
	return format(*row.FinishedAt)
}

// bulk is a command that changes many dead tasks.
type bulk struct {
	use, short, past string
	do               func(*console.Console, context.Context, []task.ID, func(done int)) (console.Bulk, error)
}

func (t *tool) deadBulk(b bulk) *cobra.Command {
	var f filterFlags
	var all bool
	cmd := &cobra.Command{
		Use: b.use + " [ID...]", Short: b.short,
		Long: b.short + `.

Which: those with the ids given, or those that the filters choose, or with --all every one. They change in transactions of
` + fmt.Sprint(console.BulkBatch) + `, each with its lines in the history; what was interrupted can be run again.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := parseIDs(args)
			if err != nil {
				return err
			}
			named := len(ids) > 0
			filter, err := f.selection(cmd, t.now(), named, all)
			if err != nil {
				return err
			}
			return t.with(cmd.Context(), func(c *console.Console) error {
				if !named {
					if ids, err = c.Select(cmd.Context(), filter); err != nil {
						return err
					}
				}
				return t.runBulk(cmd.Context(), c, b, ids, named)
			})
		},
	}
	t.addFilterFlags(cmd, &f)
	cmd.Flags().IntVar(&f.limit, "limit", 0, "most tasks to change, the earliest due first")
	cmd.Flags().BoolVar(&all, "all", false, "all dead tasks")
	return cmd
}

func parseIDs(args []string) ([]task.ID, error) {
	ids := make([]task.ID, 0, len(args))
	for _, arg := range args {
		id, err := task.ParseID(arg)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// runBulk changes the tasks. If an operator named the tasks, one that could not be changed is an error. If a filter chose
// them, a task that is no longer dead is ignored.
func (t *tool) runBulk(ctx context.Context, c *console.Console, b bulk, ids []task.ID, named bool) error {
	if len(ids) == 0 {
		_, _ = fmt.Fprintf(t.out, "%s 0 tasks\n", b.past)
		return nil
	}
	if err := t.confirm(ctx, fmt.Sprintf("%s %s dead %s?", b.use, thousands(len(ids)), plural(len(ids), "task"))); err != nil {
		return err
	}
	bar := t.progress(b.use, len(ids))
	out, err := b.do(c, ctx, ids, bar.set)
	bar.end()
	if err == nil && named && len(out.Left) > 0 {
		err = whyLeft(ctx, c, out.Left)
	}
	_, _ = fmt.Fprintf(t.out, "%s %d %s\n", b.past, out.Changed, plural(out.Changed, "task"))
	if n := len(out.Left); n > 0 && !named {
		_, _ = fmt.Fprintf(t.out, "%d %s not dead any more\n", n, was(n))
	}
	if n := len(out.KeyTaken); n > 0 {
		taken := fmt.Errorf("%d %s left dead, for %w now, the first %s", n, plural(n, "task"), task.ErrKeyTaken, out.KeyTaken[0])
		return errors.Join(taken, err)
	}
	return err
}

// whyLeft tells why the tasks were not changed, with the exit code that all of them share.
func whyLeft(ctx context.Context, c *console.Console, ids []task.ID) error {
	left, err := c.WhyLeft(ctx, ids)
	if err != nil {
		return err
	}
	code := exitCode(left[0].Reason)
	for _, l := range left {
		if exitCode(l.Reason) != code {
			code = 1
		}
	}
	return exit{code, fmt.Errorf("%d %s left alone, the first %s: %w", len(left), was(len(left)), left[0].ID, left[0].Reason)}
}
