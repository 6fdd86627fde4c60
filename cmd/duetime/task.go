package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/operate"
	"github.com/duetime/duetime/internal/parts"
	"github.com/duetime/duetime/pkg/schedule"
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
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return t.withTask(cmd.Context(), args[0], func(p *parts.Parts, id task.ID) error {
			rows, err := p.Store.Get(cmd.Context(), nil, []task.ID{id})
			if err != nil {
				return err
			}
			if len(rows) == 0 {
				return exit{exitNotFound, fmt.Errorf("task %s: %w", id, task.ErrNotFound)}
			}
			lines, err := p.Store.History(cmd.Context(), id, mostHistory+1)
			if err != nil {
				return err
			}
			if len(lines) > mostHistory {
				lines = lines[1:]
				_, _ = fmt.Fprintf(t.errs, "its life is longer: these are the newest %s lines\n", thousands(mostHistory))
			}
			life := lifeOf(rows[0], lines)
			if *asJSON {
				return writeJSON(t.out, struct {
					view
					History []happened `json:"history"`
				}{shown(rows[0]), life})
			}
			return t.writeLife(rows[0], life)
		})
	}
	return cmd
}

// jsonFlag is for the commands that show one task.
func jsonFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("json", false, "write one JSON object")
}

func (t *tool) taskList() *cobra.Command {
	var (
		f      chosen
		state  string
		asJSON bool
	)
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
			return t.listed(cmd.Context(), f, only, func(rows []task.Task) error { return t.writeList(rows, asJSON) })
		},
	}
	t.listFlags(cmd, &f, &asJSON)
	cmd.Flags().StringVar(&state, "state", "", "only pending, done, cancelled or dead ones")
	complete(cmd, "state", fixed("pending", "done", "cancelled", "dead"))
	return cmd
}

func (t *tool) writeList(rows []task.Task, asJSON bool) error {
	if asJSON {
		return t.writeViews(rows)
	}
	if width, ok := t.width(); ok {
		return t.writeNarrow(rows, width)
	}
	lines := [][]string{{"TASK", "KIND", "OWNER", "SUBJECT", "STATE", "DUE", "ATTEMPT"}}
	for _, row := range rows {
		lines = append(lines, []string{
			row.ID.String(), row.Kind, row.Owner, row.Subject, row.State.String(), t.stamped(row.DueAt), fmt.Sprintf("%d/%d", row.Attempt, row.MaxAttempts),
		})
	}
	return writeTable(t.out, lines)
}

// writeNarrow writes a table that fits the terminal: times count from now, and kind and owner are cut as far as it takes.
// The id can't be cut, for it is what the next command needs.
func (t *tool) writeNarrow(rows []task.Task, width int) error {
	const kindColumn, ownerColumn = 1, 2
	lines := [][]string{{"TASK", "KIND", "OWNER", "STATE", "DUE", "TRIES"}}
	now := time.Now()
	for _, row := range rows {
		lines = append(lines, []string{
			row.ID.String(), row.Kind, row.Owner, row.State.String(), relative(row.DueAt.Sub(now)), fmt.Sprintf("%d/%d", row.Attempt, row.MaxAttempts),
		})
	}
	return writeFittedTable(t.out, lines, width, kindColumn, ownerColumn)
}

func (t *tool) writeViews(rows []task.Task) error {
	list := make([]view, len(rows))
	for i, row := range rows {
		list[i] = shown(row)
	}
	return writeJSON(t.out, list)
}

func (t *tool) taskCancel() *cobra.Command {
	cmd := &cobra.Command{Use: "cancel ID", Short: "Take a pending task back; asks on a terminal", Args: cobra.ExactArgs(1)}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if isTerminal(t.in) { // a script means the one that it names
			if err := t.confirm(cmd.Context(), "cancel task "+args[0]+"?"); err != nil {
				return err
			}
		}
		return t.change(cmd.Context(), args[0], *asJSON, func(ctx context.Context, tx *schedule.Tx, id task.ID) (task.Task, error) {
			return tx.Cancel(ctx, id)
		})
	}
	return cmd
}

func (t *tool) taskRetry() *cobra.Command {
	cmd := &cobra.Command{
		Use: "retry ID", Short: "Make a dead task pending again, due now, with all its attempts", Args: cobra.ExactArgs(1),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return t.withTask(cmd.Context(), args[0], func(p *parts.Parts, id task.ID) error {
			client, err := p.Scheduler(nil)
			if err != nil {
				return err
			}
			defer client.Close(context.WithoutCancel(cmd.Context()))
			changed, err := operate.New(p.Store, p.Actor).RetryOne(cmd.Context(), id)
			if err == nil {
				client.IndexTasks(cmd.Context(), []task.Task{changed})
			}
			return t.answer(changed, err, *asJSON)
		})
	}
	return cmd
}

func (t *tool) taskReschedule() *cobra.Command {
	var at, by string
	cmd := &cobra.Command{
		Use: "reschedule ID (--at TIME | --by DURATION)", Short: "Move a pending task", Args: cobra.ExactArgs(1),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if (by != "") == (at != "") {
			return errors.New("give either --at or --by")
		}
		move, err := t.mover(at, by)
		if err != nil {
			return err
		}
		return t.change(cmd.Context(), args[0], *asJSON, move)
	}
	cmd.Flags().StringVar(&at, "at", "", "new due time: "+timeForms+"; the past means now, and an hour alone its next coming")
	cmd.Flags().StringVar(&by, "by", "", "move by this much, such as -2h or 1d12h; below 0 sooner, never before now")
	return cmd
}

// mover reads the flags of reschedule, of which one is given.
func (t *tool) mover(at, by string) (changeFunc, error) {
	if by != "" {
		d, err := parseSpan(by)
		if err != nil {
			return nil, fmt.Errorf("--by: %w", err)
		}
		return func(ctx context.Context, tx *schedule.Tx, id task.ID) (task.Task, error) { return tx.Shift(ctx, id, d) }, nil
	}
	m, err := parseMoment(at, t.now(), next)
	if err != nil {
		return nil, fmt.Errorf("--at: %w", err)
	}
	due := task.At(m.at)
	if m.at.IsZero() {
		due = task.In(max(m.from, 0)) // on the database's clock
	}
	return func(ctx context.Context, tx *schedule.Tx, id task.ID) (task.Task, error) {
		return tx.Reschedule(ctx, id, due)
	}, nil
}

// withTask is with for what concerns one task.
func (t *tool) withTask(ctx context.Context, text string, fn func(p *parts.Parts, id task.ID) error) error {
	id, err := task.ParseID(text)
	if err != nil {
		return err
	}
	return t.with(ctx, func(p *parts.Parts) error { return fn(p, id) })
}

type changeFunc func(ctx context.Context, tx *schedule.Tx, id task.ID) (task.Task, error)

// change runs one change of one task and shows what came of it.
func (t *tool) change(ctx context.Context, text string, asJSON bool, fn changeFunc) error {
	return t.withTask(ctx, text, func(p *parts.Parts, id task.ID) error {
		client, err := p.Scheduler(nil)
		if err != nil {
			return err
		}
		defer client.Close(context.WithoutCancel(ctx))
		var changed task.Task
		err = client.InTx(ctx, func(tx *schedule.Tx) (err error) {
			if changed, err = fn(ctx, tx, id); err != nil {
				return err
			}
			return tx.Tell(ctx)
		})
		return t.answer(changed, err, asJSON)
	})
}

// withCode gives an error about a task the exit code that says what became of it.
func withCode(err error) error {
	switch {
	case errors.Is(err, task.ErrFinished):
		return exit{exitFinished, err}
	case errors.Is(err, task.ErrNotFound):
		return exit{exitNotFound, err}
	}
	return err
}

// answer shows a changed task, or says by the exit code why there is none.
func (t *tool) answer(changed task.Task, err error, asJSON bool) error {
	if err != nil {
		return withCode(err)
	}
	if asJSON {
		return writeJSON(t.out, shown(changed))
	}
	return t.writeTask(changed)
}

// view is a task as the tool shows it.
type view struct {
	ID          task.ID         `json:"task_id"`
	Kind        string          `json:"kind"`
	Owner       string          `json:"owner"`
	Subject     string          `json:"subject"`
	Queue       string          `json:"queue"`
	Shard       int             `json:"shard"`
	State       task.State      `json:"state"`
	DueAtMs     int64           `json:"due_at_ms"`
	RunAtMs     int64           `json:"run_at_ms"`
	Version     int64           `json:"version"`
	Attempt     int             `json:"attempt"`
	MaxAttempts int             `json:"max_attempts"`
	Payload     json.RawMessage `json:"payload,omitempty"`
	LastError   string          `json:"last_error,omitempty"`
	CreatedAtMs int64           `json:"created_at_ms"`
	UpdatedAtMs int64           `json:"updated_at_ms"`
	FinishedAt  *int64          `json:"finished_at_ms,omitempty"`
}

func shown(row task.Task) view {
	v := view{
		ID: row.ID, Kind: row.Kind, Owner: row.Owner, Subject: row.Subject, Queue: row.Queue, Shard: row.Shard,
		State: row.State, DueAtMs: row.DueAt.UnixMilli(), RunAtMs: row.RunAt.UnixMilli(), Version: row.Version,
		Attempt: row.Attempt, MaxAttempts: row.MaxAttempts, LastError: row.LastError,
		CreatedAtMs: row.CreatedAt.UnixMilli(), UpdatedAtMs: row.UpdatedAt.UnixMilli(),
	}
	if json.Valid(row.Payload) {
		v.Payload = row.Payload
	}
	if !row.FinishedAt.IsZero() {
		ms := row.FinishedAt.UnixMilli()
		v.FinishedAt = &ms
	}
	return v
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// writeTask writes what one task is, line by line.
func (t *tool) writeTask(row task.Task) error {
	now := time.Now()
	moment := func(at time.Time) string {
		return fmt.Sprintf("%s (%s)", t.stamped(at), relative(at.Sub(now)))
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
	line("queue", row.Queue)
	line("shard", strconv.Itoa(row.Shard))
	line("state", row.State.String())
	line("due", moment(row.DueAt))
	if !row.RunAt.Equal(row.DueAt) {
		line("next try", moment(row.RunAt))
	}
	if !row.FinishedAt.IsZero() {
		line("finished", moment(row.FinishedAt))
	}
	line("attempts", fmt.Sprintf("%d of %d", row.Attempt, row.MaxAttempts))
	line("version", strconv.FormatInt(row.Version, 10))
	line("payload", string(row.Payload))
	line("last error", row.LastError)
	return writeTable(t.out, lines)
}

// writeLife writes what one task is, and what became of it.
func (t *tool) writeLife(row task.Task, life []happened) error {
	if err := t.writeTask(row); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(t.out)
	lines := make([][]string, len(life))
	for i, h := range life {
		lines[i] = []string{t.stamped(time.UnixMilli(h.AtMs)), h.Event, h.Actor, oneLine(h.Detail)}
	}
	return writeTable(t.out, lines)
}
