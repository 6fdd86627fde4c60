package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

func (t *tool) dead() *cobra.Command {
	cmd := &cobra.Command{
		Use: "dead", Short: "Look at dead tasks, retry them or take them off the list", Args: cobra.NoArgs, RunE: needsCommand,
	}
	cmd.AddCommand(t.deadList(), t.deadChange(deadChange{
		task.VerbRetry, "Make dead tasks pending again, due now, with all their attempts", "retried", (*console.Console).Retry,
	}), t.deadChange(deadChange{
		task.VerbDiscard, "Take dead tasks off the list: they end as cancelled", "discarded", (*console.Console).Discard,
	}))
	return cmd
}

func (t *tool) deadList() *cobra.Command {
	var f filterFlags
	cmd := &cobra.Command{
		Use: "list", Short: "List dead tasks with their last error", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.list(cmd.Context(), f, new(task.Dead), t.writeDead)
		},
	}
	t.addListFlags(cmd, &f)
	return cmd
}

func (t *tool) writeDead(rows []console.Task) error {
	if width, ok := t.width(); ok {
		return t.writeNarrowDead(rows, width)
	}
	lines := [][]string{{"TASK", "KIND", "OWNER", "DIED", "FAILS", "ERROR"}}
	for _, row := range rows {
		lines = append(lines, []string{row.ID.String(), row.Kind, row.Owner, died(row, t.stamped), fails(row), oneLine(row.LastError)})
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

// deadChange is a command that changes dead tasks.
type deadChange struct {
	verb        task.Verb
	short, past string
	one         changeFunc
}

func (t *tool) deadChange(d deadChange) *cobra.Command {
	var f filterFlags
	var all bool
	cmd := &cobra.Command{
		Use: string(d.verb) + " [ID...]", Short: d.short,
		Long: d.short + `.

Which: those with the ids given, at most ` + fmt.Sprint(task.MaxPerCall) + `, or those that the filters choose, or with --all every one. One that is
given by its id is changed at once. Several are changed by the daemon, by an operation for which this waits: an interruption ends
the wait alone. A filter chooses no tasks that die after the command has begun.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := parseIDs(args)
			if err != nil {
				return err
			}
			o := task.Operation{Verb: d.verb, Limit: f.limit}
			if o.Filter, err = f.selection(cmd, t.now(), ids, all); err != nil {
				return err
			}
			if err := o.Check(); err != nil {
				return err
			}
			return t.with(cmd.Context(), func(c *console.Console) error {
				if len(ids) > 0 {
					return t.changeNamed(cmd.Context(), c, d, o)
				}
				return t.changeChosen(cmd.Context(), c, d, o)
			})
		},
	}
	t.addFilterFlags(cmd, &f)
	cmd.Flags().IntVar(&f.limit, "limit", 0, "most tasks to change, the first ones by their ids")
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

// changeChosen changes the tasks that a filter chooses. It ignores a task that is no longer dead.
func (t *tool) changeChosen(ctx context.Context, c *console.Console, d deadChange, o task.Operation) (err error) {
	if o.Filter.DiedBefore, err = c.Clock(ctx); err != nil {
		return err
	}
	preview, err := c.PreviewBulk(ctx, o)
	if err != nil {
		return err
	}
	if o.Matched = preview.Matched; o.Matched == 0 {
		return t.changedDead(d, 0, nil)
	}
	if err := t.confirmDead(ctx, d, int(o.Matched)); err != nil {
		return err
	}
	done, err := t.changeByDaemon(ctx, c, o)
	if n := done.Unchanged; n > 0 && err == nil {
		err = fmt.Errorf("%d %s left dead: another task has its key, its owner is blocked, or somebody has locked it", n, was(int(n)))
	}
	err = t.changedDead(d, int(done.Changed), err)
	if n := done.Ended; n > 0 {
		_, _ = fmt.Fprintf(t.out, "%d %s not dead any more\n", n, was(int(n)))
	}
	return err
}

// changeNamed changes the tasks of the ids: one at once, several by the daemon. A task that could not be changed is an error.
func (t *tool) changeNamed(ctx context.Context, c *console.Console, d deadChange, o task.Operation) (err error) {
	left, changed := o.Filter.IDs, 0
	if err := t.confirmDead(ctx, d, len(left)); err != nil {
		return err
	}
	if len(left) > 1 {
		if left, changed, err = t.changeListed(ctx, c, o); err != nil {
			return t.changedDead(d, changed, err)
		}
	}
	n, err := changeEach(ctx, c, d, left)
	return t.changedDead(d, changed+n, err)
}

// changeListed has the daemon change the tasks of the ids, and returns those that it has left alone.
func (t *tool) changeListed(ctx context.Context, c *console.Console, o task.Operation) (left []task.ID, changed int, err error) {
	ids := o.Filter.IDs
	before, err := c.Rows(ctx, ids)
	if err != nil {
		return nil, 0, err
	}
	o.Matched = int64(len(ids))
	done, err := t.changeByDaemon(ctx, c, o)
	if err != nil {
		return nil, int(done.Changed), err
	}
	after, err := c.Rows(ctx, ids)
	stood, stands := protocol.ByID(before), protocol.ByID(after)
	for _, id := range ids {
		if stood[id].State != task.Dead || stands[id].Version == stood[id].Version {
			left = append(left, id)
		}
	}
	return left, int(done.Changed), err
}

func (t *tool) confirmDead(ctx context.Context, d deadChange, n int) error {
	return t.confirm(ctx, fmt.Sprintf("%s %s dead %s?", d.verb, thousands(n), plural(n, "task")))
}

// changedDead tells how many tasks were changed, and returns the error.
func (t *tool) changedDead(d deadChange, n int, err error) error {
	_, _ = fmt.Fprintf(t.out, "%s %d %s\n", d.past, n, plural(n, "task"))
	return err
}

// changeByDaemon has the daemon change the tasks, and waits.
func (t *tool) changeByDaemon(ctx context.Context, c *console.Console, o task.Operation) (console.Operation, error) {
	made, err := c.Bulk(ctx, o)
	if err != nil {
		return made, err
	}
	return t.await(ctx, c, made)
}

// changeEach changes the tasks one by one, so that each says why it can't be changed. The error has the exit code that all of them share.
func changeEach(ctx context.Context, c *console.Console, d deadChange, ids []task.ID) (changed int, err error) {
	var first error
	code := 0
	for _, id := range ids {
		_, err := d.one(c, ctx, id, 0)
		switch {
		case err == nil:
			changed++
		case first == nil:
			first, code = err, exitCode(err)
		case exitCode(err) != code:
			code = 1
		}
	}
	if first == nil {
		return changed, nil
	}
	n := len(ids) - changed
	return changed, exit{code, fmt.Errorf("%d %s left alone, the first: %w", n, was(n), first)}
}
