package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/typed"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

func (t *tool) task() *cobra.Command {
	cmd := &cobra.Command{Use: "task", Short: "Look at tasks and change them", Args: cobra.NoArgs, RunE: needsCommand}
	cmd.AddCommand(t.taskGet(), t.taskList(), t.taskCancel(), t.taskReschedule(), t.taskRetry(), t.taskRequeue())
	return cmd
}

func (t *tool) taskGet() *cobra.Command {
	cmd := &cobra.Command{
		Use: "get ID", Short: "Show one task and its life", Args: cobra.ExactArgs(1),
	}
	t.jsonFlag(cmd, jsonObject)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return t.withTask(cmd.Context(), args[0], func(c *console.Console, id task.ID) error {
			life, err := c.Task(cmd.Context(), id)
			if life.Cut {
				_, _ = fmt.Fprintf(t.errs, "its life is longer: these are the newest %s lines\n", thousands(console.MaxHistory))
			}
			return showing(t, t.writeLife)(life, err)
		})
	}
	return cmd
}

func (t *tool) taskList() *cobra.Command {
	var f filterFlags
	var state string
	cmd := &cobra.Command{
		Use: "list", Short: "List tasks", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var only *task.State
			if state != "" {
				s, err := task.ParseState(state)
				if err != nil {
					return fmt.Errorf("--state: %w", err)
				}
				only = &s
			}
			return t.list(cmd.Context(), f, only, t.writeTasks)
		},
	}
	t.addListFlags(cmd, &f)
	cmd.Flags().StringVar(&state, "state", "", "only pending, done, cancelled or dead ones")
	complete(cmd, "state", fixed("pending", "done", "cancelled", "dead"))
	return cmd
}

func (t *tool) taskCancel() *cobra.Command {
	cmd := &cobra.Command{Use: "cancel ID", Short: "Take a pending task back; asks on a terminal", Args: cobra.ExactArgs(1)}
	t.jsonFlag(cmd, jsonObject)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := t.confirmOnTerminal(cmd.Context(), "cancel task "+args[0]+"?"); err != nil {
			return err
		}
		return t.change(cmd.Context(), args[0], (*console.Console).Cancel)
	}
	return cmd
}

func (t *tool) taskRetry() *cobra.Command {
	cmd := &cobra.Command{
		Use: "retry ID", Short: "Make a dead task pending again, due now, with all its attempts", Args: cobra.ExactArgs(1),
	}
	t.jsonFlag(cmd, jsonObject)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return t.change(cmd.Context(), args[0], (*console.Console).Retry)
	}
	return cmd
}

func (t *tool) taskReschedule() *cobra.Command {
	var at, by string
	cmd := &cobra.Command{
		Use: "reschedule ID (--at TIME | --by DURATION)", Short: "Move a pending task", Args: cobra.ExactArgs(1),
	}
	t.jsonFlag(cmd, jsonObject)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if (by != "") == (at != "") {
			return errors.New("give either --at or --by")
		}
		move, err := t.mover(at, by)
		if err != nil {
			return err
		}
		return t.change(cmd.Context(), args[0], move)
	}
	cmd.Flags().StringVar(&at, "at", "", "new due time: "+timeForms+"; the past means now, and an hour alone its next coming")
	cmd.Flags().StringVar(&by, "by", "", "move by this much, such as -2h or 1d12h; below 0 sooner, never before now")
	return cmd
}

// changeFunc changes one task, in the version that was seen; 0 is any.
type changeFunc func(c *console.Console, ctx context.Context, id task.ID, version int64) (console.Task, error)

// mover reads the flags of reschedule, one of which is given.
func (t *tool) mover(at, by string) (changeFunc, error) {
	if by != "" {
		d, err := parseSpan(by)
		if err != nil {
			return nil, fmt.Errorf("--by: %w", err)
		}
		return func(c *console.Console, ctx context.Context, id task.ID, _ int64) (console.Task, error) {
			return c.Shift(ctx, id, d)
		}, nil
	}
	m, err := parseMoment(at, t.now(), typed.Next)
	if err != nil {
		return nil, fmt.Errorf("--at: %w", err)
	}
	due := task.At(m.At)
	if m.At.IsZero() {
		due = task.In(max(m.From, 0)) // counts from the database's clock
	}
	return func(c *console.Console, ctx context.Context, id task.ID, version int64) (console.Task, error) {
		return c.Reschedule(ctx, id, version, due)
	}, nil
}

// withTask runs fn on a console and the task's id.
func (t *tool) withTask(ctx context.Context, text string, fn func(c *console.Console, id task.ID) error) error {
	id, err := task.ParseID(text)
	if err != nil {
		return err
	}
	return t.with(ctx, func(c *console.Console) error { return fn(c, id) })
}

// change changes one task and shows it.
func (t *tool) change(ctx context.Context, text string, change changeFunc) error {
	return t.withTask(ctx, text, func(c *console.Console, id task.ID) error {
		return showing(t, t.writeTask)(change(c, ctx, id, 0))
	})
}

// writeTasks writes the full table, or one that fits the terminal: its times count from now, and kind and owner are cut
// as needed. The id is never cut, because the next command needs it.
func (t *tool) writeTasks(rows []console.Task) error {
	if width, ok := t.width(); ok {
		return t.writeNarrowTasks(rows, width)
	}
	lines := [][]string{{"TASK", "KIND", "OWNER", "SUBJECT", "STATE", "DUE", "FAILS"}}
	for _, row := range rows {
		lines = append(lines, []string{
			row.ID.String(), row.Kind, row.Owner, row.Subject, row.State.String(), t.stamped(row.DueAtMs), fails(row),
		})
	}
	return writeTable(t.out, lines)
}

func (t *tool) writeNarrowTasks(rows []console.Task, width int) error {
	const kindColumn, ownerColumn = 1, 2
	lines := [][]string{{"TASK", "KIND", "OWNER", "STATE", "DUE", "FAILS"}}
	for _, row := range rows {
		lines = append(lines, []string{
			row.ID.String(), row.Kind, row.Owner, row.State.String(), sinceNow(row.DueAtMs), fails(row),
		})
	}
	return writeFittedTable(t.out, lines, width, kindColumn, ownerColumn)
}

// fails says how many attempts of how many have failed.
func fails(row console.Task) string { return fmt.Sprintf("%d/%d", row.Attempt, row.MaxAttempts) }

// writeTask writes one task, a line for each field.
func (t *tool) writeTask(row console.Task) error {
	moment := func(ms int64) string {
		return fmt.Sprintf("%s (%s)", t.stamped(ms), sinceNow(ms))
	}
	var lines [][]string
	line := func(name, text string) {
		if text != "" {
			lines = append(lines, []string{name, oneLine(text)})
		}
	}
	line("task", row.ID.String())
	line("kind", row.Kind)
	line("owner", row.Owner)
	line("subject", row.Subject)
	line("labels", protocol.LabelsText(row.Labels))
	line("order key", row.OrderKey)
	line("group", row.Group)
	line("queue", row.Queue)
	line("shard", strconv.Itoa(row.Shard))
	line("state", row.State.String())
	line("due", moment(row.DueAtMs))
	if row.State == task.Pending && row.RunAtMs != row.DueAtMs {
		line("next try", moment(row.RunAtMs))
	}
	if row.FinishedAt != nil {
		line("finished", moment(*row.FinishedAt))
	}
	line("failures", fmt.Sprintf("%d of %d attempts", row.Attempt, row.MaxAttempts))
	line("version", strconv.FormatInt(row.Version, 10))
	line("payload", row.PayloadText)
	line("last error", row.LastError)
	return writeTable(t.out, lines)
}

// writeLife writes one task and its history.
func (t *tool) writeLife(life console.TaskLife) error {
	if err := t.writeTask(life.Task); err != nil {
		return err
	}
	if err := t.writeRan(life.Ran); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(t.out)
	if err := t.writeHistory(life.History); err != nil || len(life.Meanwhile) == 0 {
		return err
	}
	_, _ = fmt.Fprintln(t.out, "\nits queue while the task was late:")
	return t.writeHistory(life.Meanwhile)
}

// writeRan writes the steps of a done task's last try, if they are known.
func (t *tool) writeRan(ran *console.Ran) error {
	if ran == nil {
		return nil
	}
	by := "a worker that is not known any more"
	if ran.Host != "" {
		by = fmt.Sprintf("%s %s, %s", ran.Role, ran.Host, ran.Version)
	}
	_, _ = fmt.Fprintf(t.out, "\ntook effect by %s, after its moment:\n", printable(by))
	step := func(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }
	return writeTable(t.out, [][]string{
		{step(ran.HintedMs), "until the worker had a hint of it; 0s if it had one ahead"},
		{step(ran.TakenMs), "until a runner took it"},
		{step(ran.StartedMs), "until the first handler of its transaction began"},
		{step(ran.EndedMs), "until it was marked done, just before COMMIT; its own handler took " + step(ran.HandlerMs)},
	})
}

func (t *tool) writeHistory(history []console.Happened) error {
	if len(history) == 0 {
		return nil
	}
	lines := make([][]string, len(history))
	for i, h := range history {
		lines[i] = []string{t.stamped(h.AtMs), h.Event, h.Actor, oneLine(h.Detail)}
	}
	return writeTable(t.out, lines)
}
