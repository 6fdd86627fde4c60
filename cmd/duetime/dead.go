package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
			return t.listed(cmd.Context(), f, new(task.Dead), func(rows []task.Task) error { return t.writeDead(rows, asJSON) })
		},
	}
	t.listFlags(cmd, &f, &asJSON)
	return cmd
}

func (t *tool) writeDead(rows []task.Task, asJSON bool) error {
	if asJSON {
		return t.writeViews(rows)
	}
	if width, ok := t.width(); ok {
		return t.writeNarrowDead(rows, width)
	}
	lines := [][]string{{"TASK", "KIND", "OWNER", "DIED", "ATTEMPT", "ERROR"}}
	for _, row := range rows {
		died := "unknown" // to a row that another program wrote
		if !row.FinishedAt.IsZero() {
			died = t.stamped(row.FinishedAt)
		}
		lines = append(lines, []string{
			row.ID.String(), row.Kind, row.Owner, died, fmt.Sprintf("%d/%d", row.Attempt, row.MaxAttempts), oneLine(row.LastError),
		})
	}
	return writeTable(t.out, lines)
}

// writeNarrowDead writes a table that fits the terminal: what the kind leaves of the line is the error's.
func (t *tool) writeNarrowDead(rows []task.Task, width int) error {
	const kindWidth, errorColumn = 14, 3
	lines := [][]string{{"TASK", "KIND", "DIED", "ERROR"}}
	for _, row := range rows {
		died := "unknown" // to a row that another program wrote
		if !row.FinishedAt.IsZero() {
			died = relative(time.Until(row.FinishedAt))
		}
		lines = append(lines, []string{row.ID.String(), cut(printable(row.Kind), kindWidth), died, oneLine(row.LastError)})
	}
	return writeFittedTable(t.out, lines, width, errorColumn)
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
			filter, err := f.many(cmd, t.now(), len(ids) > 0, all)
			if err != nil {
				return err
			}
			named := len(ids) > 0
			return t.with(cmd.Context(), func(p *parts.Parts) error {
				if !named {
					if ids, err = p.Store.ListIDs(cmd.Context(), filter); err != nil {
						return err
					}
				}
				return t.runBulk(cmd.Context(), p, b, ids, named)
			})
		},
	}
	t.filterFlags(cmd, &f)
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

// many is the filter of a command that changes many tasks: that all are meant must be said.
func (f chosen) many(cmd *cobra.Command, now time.Time, ids, all bool) (store.Filter, error) {
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
	return filter, f.window(&filter, now)
}

// runBulk changes the tasks. Where an operator named them, one that is left as it was is an error; where a filter chose them,
// one that is no longer dead is as good as not chosen.
func (t *tool) runBulk(ctx context.Context, p *parts.Parts, b bulk, ids []task.ID, named bool) error {
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
	left := map[task.ID]bool{}
	for part := range slices.Chunk(ids, bulkBatch) {
		var out operate.Outcome
		if out, err = b.do(operator, ctx, part); err != nil {
			break
		}
		client.IndexTasks(ctx, out.Changed)
		sum.Changed = append(sum.Changed, out.Changed...)
		sum.Taken = append(sum.Taken, out.Taken...)
		sum.Passed += out.Passed
		if named {
			note(left, part, out)
		}
		bar.set(len(sum.Changed) + len(sum.Taken) + sum.Passed)
	}
	bar.end()
	if err == nil && len(left) > 0 {
		err = whyLeft(ctx, p, left)
	}
	return errors.Join(t.sayBulk(b, sum, named), err)
}

// note keeps those of the tasks that were neither changed nor are told of as taken.
func note(left map[task.ID]bool, ids []task.ID, out operate.Outcome) {
	for _, id := range ids {
		left[id] = !slices.Contains(out.Taken, id)
	}
	for _, row := range out.Changed {
		delete(left, row.ID)
	}
	maps.DeleteFunc(left, func(_ task.ID, stays bool) bool { return !stays })
}

// whyLeft says of the tasks that were not dead what they are, with the exit code that all of them have in common.
func whyLeft(ctx context.Context, p *parts.Parts, left map[task.ID]bool) error {
	ids := slices.SortedFunc(maps.Keys(left), func(a, b task.ID) int { return bytes.Compare(a[:], b[:]) })
	rows, err := p.Store.Get(ctx, nil, ids)
	if err != nil {
		return err
	}
	reasons := make(map[task.ID]error, len(rows))
	for _, row := range rows {
		_, reasons[row.ID] = row.Retry(row.UpdatedAt)
	}
	codes := map[int]bool{}
	for _, id := range ids {
		if _, found := reasons[id]; !found {
			reasons[id] = task.ErrNotFound
		}
		codes[codeOf(withCode(reasons[id]))] = true
	}
	code := 1
	if len(codes) == 1 {
		code = codeOf(withCode(reasons[ids[0]]))
	}
	return exit{code, fmt.Errorf("%d %s left alone, the first %s: %w", len(ids), was(len(ids)), ids[0],
		cmp.Or(reasons[ids[0]], errMoved))}
}

// errMoved says of a task that it has died since it was left alone.
var errMoved = errors.New("task was not dead when it was looked at")

func codeOf(err error) int {
	if e, ok := errors.AsType[exit](err); ok {
		return e.code
	}
	return 1
}

func (t *tool) sayBulk(b bulk, sum operate.Outcome, named bool) error {
	_, _ = fmt.Fprintf(t.out, "%s %d %s\n", b.past, len(sum.Changed), plural(len(sum.Changed), "task"))
	if sum.Passed > 0 && !named {
		_, _ = fmt.Fprintf(t.out, "%d %s not dead any more\n", sum.Passed, was(sum.Passed))
	}
	if len(sum.Taken) > 0 {
		return fmt.Errorf("%d %s left dead, for %w now, the first %s", len(sum.Taken), plural(len(sum.Taken), "task"), task.ErrKeyTaken, sum.Taken[0])
	}
	return nil
}
