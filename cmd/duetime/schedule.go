package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/task"
)

func (t *tool) schedule() *cobra.Command {
	cmd := &cobra.Command{
		Use: "schedule", Short: "Look at recurrences and change them", Args: cobra.NoArgs, RunE: needsCommand,
		Long: `Look at recurrences and change them.

A recurrence makes tasks by a timetable; services define it, by Recur. It is named by its owner and its name.`,
	}
	cmd.AddCommand(t.scheduleList(), t.scheduleGet(), t.schedulePause(), t.scheduleResume(), t.scheduleRun(), t.scheduleStop())
	return cmd
}

func (t *tool) scheduleList() *cobra.Command {
	f := console.RecurrenceFilter{}
	var state string
	cmd := &cobra.Command{
		Use: "list", Short: "List recurrences, by owner and name", Args: cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error {
			if state == "" {
				return nil
			}
			s, err := recurrenceState(state)
			if err != nil {
				return fmt.Errorf("--state: %w", err)
			}
			f.State = &s
			return nil
		},
	}
	cmd.Flags().StringVar(&f.Owner, "owner", "", "only recurrences of this owner")
	cmd.Flags().StringVar(&f.Kind, "kind", "", "only recurrences that make tasks of this kind")
	cmd.Flags().StringVar(&state, "state", "", "only active, paused, stopped or over ones")
	complete(cmd, "state", fixed("active", "paused", "stopped", "over"))
	complete(cmd, "kind", t.kinds)
	pages(t, cmd, "recurrences", t.writeRecurrences, func(ctx context.Context, c *console.Console, after string, limit int) ([]console.Recurrence, string, error) {
		f.After, f.Limit = after, limit
		page, err := c.Recurrences(ctx, f)
		return page.Recurrences, page.Next, err
	})
	return cmd
}

func (t *tool) writeRecurrences(rows []console.Recurrence) error {
	const ownerColumn, nameColumn, timetableColumn = 0, 1, 4
	width, narrow := t.width()
	lines := [][]string{{"OWNER", "NAME", "STATE", "NEXT", "TIMETABLE"}}
	for _, r := range rows {
		due := ""
		if r.DueAtMs != nil {
			if due = t.stamped(*r.DueAtMs); narrow {
				due = sinceNow(*r.DueAtMs)
			}
		}
		lines = append(lines, []string{r.Owner, r.Name, r.State.String(), due, r.Timetable})
	}
	if narrow {
		return writeFittedTable(t.out, lines, width, ownerColumn, nameColumn, timetableColumn)
	}
	return writeTable(t.out, lines)
}

func (t *tool) scheduleGet() *cobra.Command {
	cmd := &cobra.Command{Use: "get OWNER NAME", Short: "Show a recurrence, what is to come, and its life", Args: cobra.ExactArgs(2)}
	t.jsonFlag(cmd, jsonObject)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return t.with(cmd.Context(), func(c *console.Console) error {
			life, err := c.Recurrence(cmd.Context(), args[0], args[1])
			if life.Cut {
				_, _ = fmt.Fprintf(t.errs, "its life is longer: these are the newest %s lines\n", thousands(console.MaxHistory))
			}
			return showing(t, t.writeRecurrenceLife)(life, err)
		})
	}
	return cmd
}

func (t *tool) schedulePause() *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use: "pause OWNER NAME", Short: "Take the pending tasks back, and make none until a resume", Args: cobra.ExactArgs(2),
	}
	t.jsonFlag(cmd, jsonObject)
	cmd.Flags().StringVar(&note, "note", "", "why, for those who look at it later")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return t.changeRecurrence(cmd.Context(), func(c *console.Console) (console.Recurrence, error) {
			return c.PauseRecurrence(cmd.Context(), args[0], args[1], note)
		})
	}
	return cmd
}

func (t *tool) scheduleResume() *cobra.Command {
	cmd := &cobra.Command{
		Use: "resume OWNER NAME", Short: "End a pause: the next task is that of the first tick from now on", Args: cobra.ExactArgs(2),
	}
	t.jsonFlag(cmd, jsonObject)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return t.changeRecurrence(cmd.Context(), func(c *console.Console) (console.Recurrence, error) {
			return c.ResumeRecurrence(cmd.Context(), args[0], args[1])
		})
	}
	return cmd
}

func (t *tool) scheduleRun() *cobra.Command {
	cmd := &cobra.Command{
		Use: "run OWNER NAME", Short: "Make one more task, due now, beside those of the timetable", Args: cobra.ExactArgs(2),
	}
	t.jsonFlag(cmd, jsonObject)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return t.with(cmd.Context(), func(c *console.Console) error {
			return showing(t, t.writeTask)(c.RunRecurrence(cmd.Context(), args[0], args[1]))
		})
	}
	return cmd
}

func (t *tool) scheduleStop() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "stop OWNER (NAME | --all)", Short: "Take the pending tasks back, and make none any more; asks on a terminal",
		Args: cobra.RangeArgs(1, 2),
	}
	t.jsonFlag(cmd, jsonObject)
	cmd.Flags().BoolVar(&all, "all", false, "all recurrences of the owner")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if all == (len(args) == 2) {
			return errors.New("give either a name or --all")
		}
		what := "all recurrences"
		if !all {
			what = "recurrence " + args[1]
		}
		if err := t.confirmOnTerminal(cmd.Context(), "stop "+what+" of owner "+args[0]+"?"); err != nil {
			return err
		}
		if all {
			return t.stopAll(cmd.Context(), args[0])
		}
		return t.changeRecurrence(cmd.Context(), func(c *console.Console) (console.Recurrence, error) {
			return c.StopRecurrence(cmd.Context(), args[0], args[1])
		})
	}
	return cmd
}

func (t *tool) stopAll(ctx context.Context, owner string) error {
	return t.with(ctx, func(c *console.Console) error {
		n, err := c.StopRecurrences(ctx, owner)
		if err != nil {
			return err
		}
		return show(t, map[string]int{"stopped": n}, func(map[string]int) error {
			_, err := fmt.Fprintf(t.out, "stopped %d %s\n", n, plural(n, "recurrence"))
			return err
		})
	})
}

// changeRecurrence changes one recurrence and shows it.
func (t *tool) changeRecurrence(ctx context.Context, change func(*console.Console) (console.Recurrence, error)) error {
	return t.with(ctx, func(c *console.Console) error {
		return showing(t, func(r console.Recurrence) error { return t.writeRecurrence(console.RecurrenceLife{Recurrence: r}) })(change(c))
	})
}

// writeRecurrence writes one recurrence, a line for each field.
func (t *tool) writeRecurrence(r console.RecurrenceLife) error {
	policy, err := json.Marshal(r.Policy)
	if err != nil {
		return err
	}
	var lines [][]string
	line := func(name, text string) {
		if text != "" {
			lines = append(lines, []string{name, oneLine(text)})
		}
	}
	line("recurrence", r.ID.String())
	line("owner", r.Owner)
	line("name", r.Name)
	line("state", r.State.String())
	line("note", r.Note)
	line("timetable", r.Timetable)
	line("no tick in", shortMonths(r.Timetable))
	if string(policy) != "{}" {
		line("policy", string(policy))
	}
	line("kind", r.Kind)
	line("queue", r.Queue)
	line("subject", r.Subject)
	line("payload", r.PayloadText)
	if r.Newest != nil && r.DueAtMs != nil {
		due, moved := *r.DueAtMs, ""
		if now := r.NewestDueMs; now != nil && *now != due {
			due, moved = *now, ", moved from "+t.stamped(due)
		}
		line("task", fmt.Sprintf("%s, due %s (%s)%s", r.Newest, t.stamped(due), sinceNow(due), moved))
	}
	ticks := make([]string, len(r.NextMs))
	for i, ms := range r.NextMs {
		ticks[i] = t.stamped(ms)
	}
	line("then", strings.Join(ticks, ", "))
	line("made", thousands(r.Made))
	line("caught up", thousands(r.CaughtUp))
	line("skipped", thousands(r.Skipped))
	return writeTable(t.out, lines)
}

// shortMonths names the months that the timetable skips because they don't have its day.
func shortMonths(text string) string {
	timetable, err := recur.Parse(text)
	if err != nil { // a later version has written it
		return ""
	}
	var names []string
	for _, m := range timetable.ShortMonths() {
		names = append(names, m.String())
	}
	if len(names) == 0 {
		return ""
	}
	return strings.Join(names, ", ") + " where they are too short; the day L is the last one of each month"
}

// writeRecurrenceLife writes one recurrence and its history.
func (t *tool) writeRecurrenceLife(life console.RecurrenceLife) error {
	if err := t.writeRecurrence(life); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(t.out)
	return t.writeHistory(life.History)
}

// recurrenceState reads the name of a state.
func recurrenceState(name string) (task.RecurrenceState, error) {
	var names []string
	for s := task.RecurrenceActive; s <= task.RecurrenceOver; s++ {
		if s.String() == name {
			return s, nil
		}
		names = append(names, s.String())
	}
	return 0, &task.FieldError{Field: "state", Problem: "must be " + strings.Join(names, ", ")}
}
