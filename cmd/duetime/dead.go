package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/operate"
	"github.com/duetime/duetime/internal/parts"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/task"
)

func (t *tool) dead() *cobra.Command {
	cmd := &cobra.Command{
		Use: "dead", Short: "Look at dead tasks, retry them or take them off the list", Args: cobra.NoArgs, RunE: needsCommand,
	}
	cmd.AddCommand(t.deadList(), t.deadBulk(bulk{
		use: "retry", short: "Make dead tasks pending again, due now, with all their attempts", past: "retried",
		do: (*operate.Operator).Retry,
	}), t.deadBulk(bulk{
		use: "discard", short: "Take dead tasks off the list: they end as cancelled", past: "discarded",
		do: (*operate.Operator).Discard,
	}))
	return cmd
}

func (t *tool) deadList() *cobra.Command {
	var f chosen
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List dead tasks with their last error", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := f.filter()
			if err != nil {
				return err
			}
			filter.State = new(task.Dead)
			return t.with(cmd.Context(), func(p *parts.Parts) error {
				rows, err := p.Store.List(cmd.Context(), filter)
				if err != nil {
					return err
				}
				return t.writeDead(rows, asJSON)
			})
		},
	}
	t.filterFlags(cmd, &f)
	cmd.Flags().IntVar(&f.limit, "limit", 100, "most tasks to list, 1 to 100000")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write a JSON array")
	return cmd
}

func (t *tool) writeDead(rows []task.Task, asJSON bool) error {
	if asJSON {
		return t.writeViews(rows)
	}
	if width, ok := t.width(); ok {
		return t.writeNarrowDead(rows, width)
	}
	w := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "TASK\tKIND\tOWNER\tDIED\tATTEMPT\tERROR")
	for _, row := range rows {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d/%d\t%s\n", row.ID, row.Kind, row.Owner,
			row.FinishedAt.Format(stamp), row.Attempt, row.MaxAttempts, oneLine(row.LastError))
	}
	return w.Flush()
}

// writeNarrowDead writes a table that fits the terminal: what the kind leaves of the line is the error's.
func (t *tool) writeNarrowDead(rows []task.Task, width int) error {
	const kind, died = 14, 8
	format := fmt.Sprintf("%%-36s %%s %%-%ds %%s\n", died)
	_, _ = fmt.Fprintf(t.out, format, "TASK", fit("KIND", kind), "DIED", "ERROR")
	for _, row := range rows {
		text := cut(oneLine(row.LastError), max(width-36-kind-died-3, leastColumn))
		_, _ = fmt.Fprintf(t.out, format, row.ID, fit(row.Kind, kind), relative(time.Until(row.FinishedAt)), text)
	}
	return nil
}

// bulk is what is done to many dead tasks.
type bulk struct {
	use, short, past string
	do               func(*operate.Operator, context.Context, []task.ID) (operate.Outcome, error)
}

// bulkBatch is how many tasks change in one transaction: short locks, and little to do again.
const bulkBatch = 200

func (t *tool) deadBulk(b bulk) *cobra.Command {
	var f chosen
	var all bool
	cmd := &cobra.Command{
		Use: b.use + " [ID...]", Short: b.short,
		Long: b.short + `.

Which: those with the ids given, or those that the filters choose, or with --all every one. They change in transactions of
` + fmt.Sprint(bulkBatch) + `, each with its lines in the history; what was interrupted can be run again.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := parseIDs(args)
			if err != nil {
				return err
			}
			filter, err := f.many(cmd, len(ids) > 0, all)
			if err != nil {
				return err
			}
			return t.with(cmd.Context(), func(p *parts.Parts) error {
				if len(ids) == 0 {
					if ids, err = p.Store.ListIDs(cmd.Context(), filter); err != nil {
						return err
					}
				}
				return t.runBulk(cmd.Context(), p, b, ids)
			})
		},
	}
	t.filterFlags(cmd, &f)
	cmd.Flags().IntVar(&f.limit, "limit", 0, "most tasks to change, the earliest due first")
	cmd.Flags().BoolVar(&all, "all", false, "all dead tasks")
	return cmd
}

func parseIDs(args []string) ([]task.ID, error) {
	ids := make([]task.ID, len(args))
	for i, arg := range args {
		var err error
		if ids[i], err = task.ParseID(arg); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// many is the filter of a command that changes many tasks: that all are meant must be said.
func (f chosen) many(cmd *cobra.Command, ids, all bool) (store.Filter, error) {
	limited := cmd.Flags().Changed("limit")
	filter := store.Filter{Owner: f.owner, Kind: f.kind, Queue: f.queue, State: new(task.Dead), Limit: cmp.Or(f.limit, mostChanged)}
	switch {
	case limited && (f.limit < 1 || f.limit > mostChanged):
		return filter, fmt.Errorf("--limit: %d is not between 1 and %d", f.limit, mostChanged)
	case ids && (all || limited || !f.empty()):
		return filter, errors.New("give either ids or filters")
	case all && !f.empty():
		return filter, errors.New("give either filters or --all")
	case !ids && !all && f.empty():
		return filter, errors.New("give ids, a filter, or --all")
	}
	return filter, f.window(&filter)
}

func (t *tool) runBulk(ctx context.Context, p *parts.Parts, b bulk, ids []task.ID) error {
	if len(ids) == 0 {
		_, _ = fmt.Fprintf(t.out, "%s 0 tasks\n", b.past)
		return nil
	}
	if err := t.confirm(ctx, fmt.Sprintf("%s %s dead %s?", b.use, thousands(len(ids)), plural(len(ids), "task"))); err != nil {
		return err
	}
	client, err := p.Scheduler(nil)
	if err != nil {
		return err
	}
	defer client.Close(context.WithoutCancel(ctx))
	operator := operate.New(p.Store, p.Actor)
	bar := t.progress(b.use, len(ids))
	var sum operate.Outcome
	done := 0
	for part := range slices.Chunk(ids, bulkBatch) {
		var out operate.Outcome
		if out, err = b.do(operator, ctx, part); err != nil {
			break
		}
		client.IndexTasks(ctx, out.Changed)
		done += len(out.Changed)
		sum.Taken = append(sum.Taken, out.Taken...)
		sum.Passed += out.Passed
		bar.set(done + len(sum.Taken) + sum.Passed)
	}
	bar.end()
	return errors.Join(t.sayBulk(b, done, sum), err)
}

func (t *tool) sayBulk(b bulk, done int, sum operate.Outcome) error {
	_, _ = fmt.Fprintf(t.out, "%s %d %s\n", b.past, done, plural(done, "task"))
	if sum.Passed > 0 {
		_, _ = fmt.Fprintf(t.out, "%d %s not dead (any more)\n", sum.Passed, map[bool]string{true: "was", false: "were"}[sum.Passed == 1])
	}
	if len(sum.Taken) > 0 {
		return fmt.Errorf("%d %s left dead, for %w now, the first %s", len(sum.Taken), plural(len(sum.Taken), "task"), task.ErrKeyTaken, sum.Taken[0])
	}
	return nil
}

func plural(n int, one string) string {
	if n == 1 {
		return one
	}
	return one + "s"
}
