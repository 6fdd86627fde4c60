package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/pkg/console"
)

func (t *tool) pause() *cobra.Command {
	var list bool
	cmd := &cobra.Command{
		Use: "pause (QUEUE | --list)", Short: "Have all workers leave a queue's tasks alone", Args: cobra.MaximumNArgs(1),
		Long: `Have all workers leave a queue's tasks alone.

They obey within two seconds; what runs by then runs to its end. Nothing is lost or charged: tasks that come due wait, and
run after a resume, late. A kind with a catch-up window skips those that are later than that by then.`,
		ValidArgsFunction: first(t.queues),
		RunE: func(cmd *cobra.Command, args []string) error {
			if list == (len(args) > 0) {
				return errors.New("give either a queue or --list")
			}
			if list {
				return t.listPauses(cmd.Context())
			}
			return t.changeQueue(cmd.Context(), (*console.Console).Pause, args[0], "is paused", "was paused already")
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "list the paused queues")
	t.jsonFlag(cmd, "a JSON array, with --list")
	return cmd
}

func (t *tool) resume() *cobra.Command {
	return &cobra.Command{
		Use: "resume QUEUE", Short: "End the pause of a queue", Args: cobra.ExactArgs(1), ValidArgsFunction: first(t.queues),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.changeQueue(cmd.Context(), (*console.Console).Resume, args[0], "goes on", "was not paused")
		},
	}
}

// changeQueue prints the queue's new state, or that it had this state before.
func (t *tool) changeQueue(
	ctx context.Context, change func(*console.Console, context.Context, string) (bool, error), queue, changed, already string,
) error {
	return t.with(ctx, func(c *console.Console) error {
		ok, err := change(c, ctx, queue)
		if err != nil {
			return err
		}
		if !ok {
			changed = already
		}
		_, err = fmt.Fprintln(t.out, queue, changed)
		return err
	})
}

func (t *tool) listPauses(ctx context.Context) error {
	return t.with(ctx, func(c *console.Console) error { return showing(t, t.writePauses)(c.Pauses(ctx)) })
}

func (t *tool) writePauses(pauses []console.Pause) error {
	lines := [][]string{{"QUEUE", "PAUSED SINCE"}}
	for _, p := range pauses {
		lines = append(lines, []string{p.Queue, time.UnixMilli(p.SinceMs).In(t.location()).Format(time.RFC3339)})
	}
	return writeTable(t.out, lines)
}
