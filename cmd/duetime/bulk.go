package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

func (t *tool) bulk() *cobra.Command {
	cmd := &cobra.Command{
		Use: "bulk", Short: "Change all tasks that a filter chooses, by the daemon", Args: cobra.NoArgs, RunE: needsCommand,
		Long: `Change all tasks that a filter chooses, by the daemon.

A command that changes tasks counts them, shows some, asks, and makes an operation. The daemon carries it out in pages, goes on
after crashes, changes no task twice, and makes way for running tasks. Tasks that are scheduled later are not changed.`,
	}
	cmd.AddCommand(
		t.bulkVerb(task.VerbShift, "Move the due times of pending tasks"),
		t.bulkVerb(task.VerbCancel, "Take pending tasks back"),
		t.bulkVerb(task.VerbRequeue, "Move pending tasks to another queue"),
		t.bulkVerb(task.VerbRetry, "Make dead tasks pending again, due now, with all their attempts"),
		t.bulkVerb(task.VerbDiscard, "Take dead tasks off the list: they end as cancelled"),
	)
	cmd.AddCommand(
		t.bulkUndo(), t.bulkList(), t.bulkGet(), t.bulkStop(),
		t.bulkChange("pause", "Let an operation wait until a resume", (*console.Console).PauseOperation),
		t.bulkChange("resume", "Let an operation go on", (*console.Console).ResumeOperation),
	)
	return cmd
}

// bulkFlags are those of a command that makes an operation.
type bulkFlags struct {
	filterFlags

	prefix, subject, state string
	by, to                 string
	rate                   int
	all, dryRun, wait      bool
	recurrences            bool
}

func (t *tool) bulkVerb(verb task.Verb, short string) *cobra.Command {
	var f bulkFlags
	from, _ := verb.From()
	cmd := &cobra.Command{Use: string(verb), Short: short, Args: cobra.NoArgs}
	t.addFilterFlags(cmd, &f.filterFlags)
	cmd.Flags().StringVar(&f.prefix, "owner-prefix", "", "only tasks whose owners begin with this")
	cmd.Flags().StringVar(&f.subject, "subject", "", "only tasks about this subject")
	cmd.Flags().StringVar(&f.state, "state", "", fmt.Sprintf("only %s tasks: %s is for no others", from, verb))
	cmd.Flags().BoolVar(&f.all, "all", false, fmt.Sprintf("all %s tasks", from))
	t.addRunFlags(cmd, &f)
	complete(cmd, "state", fixed(from.String()))
	switch verb {
	case task.VerbShift:
		cmd.Flags().StringVar(&f.by, "by", "", "move by this much, such as 2h, -30m or 1d12h; below 0 sooner, never before now")
		cmd.Flags().BoolVar(&f.recurrences, "recurrences", false, "move tasks of recurrences too, which else stay on their timetables")
	case task.VerbRequeue:
		cmd.Flags().StringVar(&f.to, "to", "", "the queue to which they move, one of the configuration's")
		complete(cmd, "to", t.queues)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o, err := f.operation(verb, t.now())
		if err != nil {
			return err
		}
		return t.with(cmd.Context(), func(c *console.Console) error { return t.runBulkVerb(cmd.Context(), c, o, f) })
	}
	return cmd
}

// addRunFlags adds the flags that say how an operation is made.
func (t *tool) addRunFlags(cmd *cobra.Command, f *bulkFlags) {
	cmd.Flags().IntVar(&f.rate, "rate", 0, "most tasks to change a second; 0: as many as running tasks leave room for")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "count and show the tasks, and change none")
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait until the operation is done")
	t.jsonFlag(cmd, "the operation as one JSON object; with --dry-run count and sample")
}

func (t *tool) bulkUndo() *cobra.Command {
	var f bulkFlags
	cmd := &cobra.Command{
		Use: "undo ID", Short: "Move back what a shift has moved", Args: cobra.ExactArgs(1),
		Long: `Move back what a shift has moved, once it is done or stopped.

Only tasks move back that it moved by its whole time, and that nothing has changed since. No task moves to before now.`,
	}
	t.addRunFlags(cmd, &f)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return t.withTask(cmd.Context(), args[0], func(c *console.Console, id task.ID) error {
			o, err := c.UndoOf(cmd.Context(), id)
			if err != nil {
				return err
			}
			o.Rate = f.rate
			return t.runBulkVerb(cmd.Context(), c, o, f)
		})
	}
	return cmd
}

// operation reads the flags. now is this machine's clock, in the operator's zone.
func (f bulkFlags) operation(verb task.Verb, now time.Time) (task.Operation, error) {
	o := task.Operation{Verb: verb, To: f.to, Rate: f.rate, Recurrences: f.recurrences}
	var err error
	if o.Filter, err = f.chosen(now); err != nil {
		return o, err
	}
	o.Filter.OwnerPrefix, o.Filter.Subject, o.Filter.All = f.prefix, f.subject, f.all
	from, _ := verb.From()
	if f.state != "" && f.state != from.String() {
		return o, fmt.Errorf("--state: %s is for %s tasks, not for %s ones", verb, from, f.state)
	}
	if f.by != "" {
		if o.By, err = parseSpan(f.by); err != nil {
			return o, fmt.Errorf("--by: %w", err)
		}
	}
	var field *task.FieldError
	if err := o.Check(); errors.As(err, &field) && field.Field == "filter" {
		return o, errors.New("give a filter, or --all")
	} else if err != nil {
		return o, err
	}
	return o, nil
}

func (t *tool) runBulkVerb(ctx context.Context, c *console.Console, o task.Operation, f bulkFlags) error {
	preview, err := c.PreviewBulk(ctx, o)
	if err != nil {
		return err
	}
	o.Matched = preview.Matched
	if f.dryRun || !t.json {
		if err := show(t, preview, func(p console.Preview) error { return t.writePreview(o, p) }); err != nil {
			return err
		}
	}
	if f.dryRun || o.Matched == 0 && !t.json { // a script gets its operation, and no case of its own
		return nil
	}
	if err := t.confirm(ctx, bulkQuestion(o)); err != nil {
		return err
	}
	made, err := c.Bulk(ctx, o)
	if err != nil {
		return err
	}
	if f.wait {
		return t.showAwaited(ctx, c, made)
	}
	return show(t, made, func(o console.Operation) error {
		_, err := fmt.Fprintf(t.out, "operation %s is made: duetime bulk get %s shows how far it is\n", o.ID, o.ID)
		return err
	})
}

func bulkQuestion(o task.Operation) string {
	from, _ := o.Verb.From()
	how := ""
	switch o.Verb {
	case task.VerbShift:
		how = " by " + o.By.String()
	case task.VerbRequeue:
		how = " to queue " + o.To
	}
	return fmt.Sprintf("%s %s %s %s%s?", o.Verb, thousands(o.Matched), from, plural(int(o.Matched), "task"), how)
}

func (t *tool) writePreview(o task.Operation, p console.Preview) error {
	from, _ := o.Verb.From()
	what := o.Filter.String()
	if !o.Undoes.IsZero() {
		what = "what operation " + o.Undoes.String() + " moved, and nothing has changed since"
	}
	_, err := fmt.Fprintf(t.out, "%s %s %s: %s\n", thousands(p.Matched), from, plural(int(p.Matched), "task"), printable(what))
	if err == nil && o.LeavesRecurrences() && o.Undoes.IsZero() {
		_, err = fmt.Fprintln(t.out, "tasks of recurrences stay on their timetables: --recurrences moves them too")
	}
	if err != nil || p.Matched == 0 {
		return err
	}
	if err := t.writeTasks(p.Sample); err != nil {
		return err
	}
	if left := p.Matched - int64(len(p.Sample)); left > 0 {
		_, err = fmt.Fprintf(t.out, "and %s more\n", thousands(left))
	}
	return err
}

// await waits until the operation stands. One that is not done by then is an error.
func (t *tool) await(ctx context.Context, c *console.Console, o console.Operation) (console.Operation, error) {
	bar := t.progress(string(o.Verb), int(o.Matched))
	o, err := c.AwaitOperation(ctx, o, bar.set)
	bar.end()
	if ctx.Err() != nil {
		err = fmt.Errorf("operation %s goes on: duetime bulk get %s shows how far it is", o.ID, o.ID)
	}
	return o, err
}

// showAwaited waits, and tells what the operation has changed.
func (t *tool) showAwaited(ctx context.Context, c *console.Console, o console.Operation) error {
	o, err := t.await(ctx, c, o)
	if o.State == task.OperationRunning {
		return err
	}
	return cmp.Or(show(t, o, func(o console.Operation) error {
		_, err := fmt.Fprintln(t.out, changedText(o))
		return err
	}), err)
}

// changedText says what an operation has done so far.
func changedText(o console.Operation) string {
	text := thousands(o.Changed) + " changed"
	if o.Ended > 0 {
		text += fmt.Sprintf(", %s had ended", thousands(o.Ended))
	}
	if o.Unchanged > 0 {
		text += fmt.Sprintf(", %s left alone", thousands(o.Unchanged))
	}
	return text
}
