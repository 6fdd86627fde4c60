package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/typed"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

// untilResume stands for the end of a pause without one.
const untilResume = "resume"

func (t *tool) pause() *cobra.Command {
	var of console.PauseOf
	var list bool
	var until string
	cmd := &cobra.Command{
		Use: "pause ([QUEUE] [--kind K] [--owner O] [--until TIME] | --list)", Short: "Have all workers leave tasks alone", Args: cobra.MaximumNArgs(1),
		Long: `Have all workers leave tasks alone: those of a queue, or, until a time, those of a kind or an owner, in the queue or in all.

They obey within two seconds; what runs by then runs to its end. Nothing is lost or charged: tasks that come due wait, and
run after a resume or at the time, late. A kind with a catch-up window skips those that are later than that by then.

A pause with --kind or --owner needs --until, and puts due tasks off to that time. A pause never gets shorter by another one:
resume it first.

TIME: ` + timeForms,
		Example: `  duetime pause mails
  duetime pause mails --until 14:30
  duetime pause calls --owner customer-7 --until +1h
  duetime pause --kind order.expire --until "2026-03-01 06:00"`,
		ValidArgsFunction: first(t.queues),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				of.Queue = args[0]
			}
			switch named := of != (console.PauseOf{}); {
			case list == named, list && until != "":
				return errors.New("give either what to pause (a queue, --kind, --owner) or --list")
			case list:
				return t.listPauses(cmd.Context())
			case until == "" && !of.OfQueue():
				return errors.New("--kind and --owner need --until: only the pause of a whole queue lasts until a resume")
			case until == "":
				return t.changeQueue(cmd.Context(), (*console.Console).Pause, of.Queue, "is paused", "was paused already")
			}
			return t.pauseUntil(cmd.Context(), of, until)
		},
	}
	cmd.Flags().StringVar(&of.Kind, "kind", "", "tasks of this kind alone")
	cmd.Flags().StringVar(&of.Owner, "owner", "", "tasks of this owner alone")
	cmd.Flags().StringVar(&until, "until", "", "when the pause ends by itself, within 31 days")
	cmd.Flags().BoolVar(&list, "list", false, "list what is paused")
	t.jsonFlag(cmd, "a JSON array, with --list")
	return cmd
}

func (t *tool) resume() *cobra.Command {
	var of console.PauseOf
	cmd := &cobra.Command{
		Use: "resume [QUEUE] [--kind K] [--owner O]", Short: "End a pause", Args: cobra.MaximumNArgs(1), ValidArgsFunction: first(t.queues),
		Long: `End a pause of exactly this: of a queue, or of a kind or an owner, as pause --list names it.

Tasks that were put off until the pause's end go on within some seconds, while a daemon leads.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				of.Queue = args[0]
			}
			end := func(c *console.Console, ctx context.Context, _ string) (bool, error) { return c.EndPause(ctx, of) }
			return t.changeQueue(cmd.Context(), end, pauseName(of), "goes on", "was not paused")
		},
	}
	cmd.Flags().StringVar(&of.Kind, "kind", "", "tasks of this kind")
	cmd.Flags().StringVar(&of.Owner, "owner", "", "tasks of this owner")
	return cmd
}

// pauseName is what the tool calls what is paused: a queue by its name alone.
func pauseName(of console.PauseOf) string {
	if of.OfQueue() {
		return of.Queue
	}
	return of.String()
}

func (t *tool) pauseUntil(ctx context.Context, of console.PauseOf, until string) error {
	m, err := parseMoment(until, t.now(), typed.Next)
	if err != nil {
		return fmt.Errorf("--until: %w", err)
	}
	end := task.At(m.At)
	if m.At.IsZero() {
		end = task.In(max(m.From, 0)) // counts from the database's clock
	}
	return t.with(ctx, func(c *console.Console) error {
		ends, err := c.PauseUntil(ctx, of, end)
		switch {
		case err != nil:
			return err
		case ends.IsZero():
			_, err = fmt.Fprintln(t.out, pauseName(of), "was paused already, until a resume")
		default:
			_, err = fmt.Fprintln(t.out, pauseName(of), "is paused until", t.stamped(ends.UnixMilli()))
		}
		return err
	})
}

// changeQueue prints the new state of what has a name, or that it had this state before.
func (t *tool) changeQueue(
	ctx context.Context, change func(*console.Console, context.Context, string) (bool, error), name, changed, already string,
) error {
	return t.with(ctx, func(c *console.Console) error {
		ok, err := change(c, ctx, name)
		if err != nil {
			return err
		}
		if !ok {
			changed = already
		}
		_, err = fmt.Fprintln(t.out, name, changed)
		return err
	})
}

func (t *tool) listPauses(ctx context.Context) error {
	return t.with(ctx, func(c *console.Console) error { return showing(t, t.writePauses)(c.Pauses(ctx)) })
}

func (t *tool) writePauses(pauses []console.Pause) error {
	lines := [][]string{{"QUEUE", "KIND", "OWNER", "PAUSED SINCE", "UNTIL", "BY"}}
	for _, p := range pauses {
		until := untilResume
		if p.UntilMs != nil {
			until = time.UnixMilli(*p.UntilMs).In(t.location()).Format(time.RFC3339)
		}
		since := time.UnixMilli(p.SinceMs).In(t.location()).Format(time.RFC3339)
		lines = append(lines, []string{orDash(p.Queue), orDash(oneLine(p.Kind)), orDash(oneLine(p.Owner)), since, until, orDash(oneLine(p.Actor))})
	}
	return writeTable(t.out, lines)
}

func orDash(text string) string { return cmp.Or(text, "-") }
