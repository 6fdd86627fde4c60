package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/pkg/console"
)

func (t *tool) taskRequeue() *cobra.Command {
	var kind, from, to string
	cmd := &cobra.Command{
		Use: "requeue --kind KIND --to QUEUE", Short: "Move a kind's pending tasks to another queue", Args: cobra.NoArgs,
		Long: `Move a kind's pending tasks to another queue.

A task waits in the queue that its kind had when it was scheduled. Where the kind has moved, and the old queue's workers don't
know it any more, this moves what waits. Due times, attempts and keys stay. The daemon goes through all pending tasks, by an
operation for which this waits, while services and workers go on; what was interrupted goes on, and can be run again.
Let the services of before end first: they go on scheduling into the old queue.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if kind == "" || to == "" {
				return errors.New("give both --kind and --to")
			}
			return t.with(cmd.Context(), func(c *console.Console) error {
				if err := c.CheckQueue(cmd.Context(), to); err != nil {
					return fmt.Errorf("--to: %w", err)
				}
				if err := t.confirm(cmd.Context(), fmt.Sprintf("move all pending tasks of kind %s to queue %s?", kind, to)); err != nil {
					return err
				}
				out, err := c.Requeue(cmd.Context(), kind, from, to)
				_, _ = fmt.Fprintf(t.out, "moved %d %s to %s\n", out.Moved, plural(out.Moved, "task"), to)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&kind, "kind", "", "the kind whose tasks move")
	cmd.Flags().StringVar(&from, "from", "", "only those that wait in this queue")
	cmd.Flags().StringVar(&to, "to", "", "the queue to which they move, one of the configuration's")
	complete(cmd, "kind", t.kinds)
	complete(cmd, "to", t.queues)
	return cmd
}
