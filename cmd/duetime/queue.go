package main

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

// Words in place of a limit.
const (
	noLimit      = "none"
	asConfigured = "default"
)

func (t *tool) queue() *cobra.Command {
	cmd := &cobra.Command{Use: "queue", Short: "Look at queues and their limits, add them and retire them", Args: cobra.NoArgs, RunE: needsCommand}
	cmd.AddCommand(t.queueList(), t.queueAdd(), t.queueRetire(), t.queueRate(), t.queueOwnerRate(), t.queueConcurrency())
	return cmd
}

func (t *tool) queueList() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "Show what bounds each queue", Args: cobra.NoArgs,
		Long: `Show what bounds each queue.

A queue is limited while due tasks wait for its rate or its concurrency. They are late by intent: the lag does not count
that wait. The OWNER RATE is for each owner: tasks that would run too soon are put off to their slots, and hold up no other owner's.`,
	}
	shows(t, cmd, (*console.Console).Queues, t.writeQueues)
	return cmd
}

func (t *tool) writeQueues(all []console.QueueLimit) error {
	lines := [][]string{{"QUEUE", "FROM", "RATE", "CONCURRENCY", "OWNER RATE", "SET BY", "LIMITED", "PAUSED SINCE", "UNTIL"}}
	for _, q := range all {
		from, by, limited, paused, until, concurrency := "configuration", "configuration", "no", "-", "-", noLimit
		if q.Added {
			from = "operator"
		}
		if q.ByOperator {
			by = "operator"
		}
		if q.Limited {
			limited = "yes"
		}
		if q.PausedMs != nil {
			paused, until = time.UnixMilli(*q.PausedMs).In(t.location()).Format(time.RFC3339), untilResume
		}
		if q.PausedUntilMs != nil {
			until = time.UnixMilli(*q.PausedUntilMs).In(t.location()).Format(time.RFC3339)
		}
		if q.Concurrency > 0 {
			concurrency = fmt.Sprintf("%d of %d", q.Running, q.Concurrency)
		}
		lines = append(lines, []string{q.Queue, from, cmp.Or(q.Rate.String(), noLimit), concurrency, cmp.Or(q.OwnerRate.String(), noLimit), by, limited, paused, until})
	}
	return writeTable(t.out, lines)
}

func (t *tool) queueAdd() *cobra.Command {
	return &cobra.Command{
		Use: "add QUEUE", Short: "Add a queue to those of the configuration, without a restart", Args: cobra.ExactArgs(1),
		Long: `Add a queue to those of the configuration, without a restart.

Services may schedule into it at once; event, daemon and console know it within two seconds. Start workers with handlers for it: a
running worker keeps its queues. The first of them makes its topic.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.changeQueue(cmd.Context(), (*console.Console).AddQueue, args[0], "is added", "is there already")
		},
	}
}

func (t *tool) queueRetire() *cobra.Command {
	return &cobra.Command{
		Use: "retire QUEUE", Short: "End a queue that was added, once nothing uses it", Args: cobra.ExactArgs(1),
		Long: `End a queue that was added, once nothing uses it.

It is refused while there are pending or dead tasks, recurrences, open groups, operations or living workers of the queue: the
answer counts them. From then on nobody can schedule into the queue. Its limits and pauses end with it; its topic stays, and is
yours to delete. A queue of the configuration is taken out there instead.`,
		ValidArgsFunction: first(t.queues),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.with(cmd.Context(), func(c *console.Console) error {
				if err := c.RetireQueue(cmd.Context(), args[0]); err != nil {
					return err
				}
				_, err := fmt.Fprintln(t.out, args[0], "is retired")
				return err
			})
		},
	}
}

func (t *tool) queueRate() *cobra.Command {
	return t.setsRate(&cobra.Command{
		Use: "rate QUEUE (RATE | none | default)", Short: "Bound the handler calls of a queue, over all workers",
		Long: `Bound the handler calls of a queue, over all workers: 200/s, 50/m, 10/h.

Workers obey within two seconds. Due tasks beyond the rate wait in the order of their time. This outlives restarts, until
"default" returns to the configuration's rate. To stop a queue, pause it.`,
	}, console.LimitRate)
}

func (t *tool) queueOwnerRate() *cobra.Command {
	return t.setsRate(&cobra.Command{
		Use: "owner-rate QUEUE (RATE | none | default)", Short: "Bound the handler calls of a queue for each owner",
		Long: `Bound the handler calls of a queue for each owner: 5/s, 50/m, 10/h.

Workers obey within two seconds, for what becomes due from then on. Tasks that would run too soon are put off to their slots,
and hold up no other owner's. This outlives restarts, until "default" returns to the configuration's rate.`,
	}, console.LimitOwnerRate)
}

// setsRate completes a command that sets a rate of a queue.
func (t *tool) setsRate(cmd *cobra.Command, limit func(*task.Rate) console.LimitChange) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = cobra.ExactArgs(2), first(t.queues)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		rate, err := parseRate(args[1])
		if err != nil {
			return err
		}
		return t.with(cmd.Context(), func(c *console.Console) error {
			if err := c.SetLimits(cmd.Context(), args[0], limit(rate)); err != nil {
				return err
			}
			_, err := fmt.Fprintf(t.out, "%s: %s %s\n", args[0], cmd.Name(), args[1])
			return err
		})
	}
	return cmd
}

func (t *tool) queueConcurrency() *cobra.Command {
	return &cobra.Command{
		Use: "concurrency QUEUE (N | none | default)", Short: "Bound the transactions of a queue at once, over all workers",
		Args: cobra.ExactArgs(2),
		Long: `Bound the transactions of a queue at once, over all workers.

A transaction runs its tasks one after another, so at most N handlers run at once. Workers obey within two seconds. This
outlives restarts, until "default" returns to the configuration's bound.`,
		ValidArgsFunction: first(t.queues),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := parseConcurrency(args[1])
			if err != nil {
				return err
			}
			return t.with(cmd.Context(), func(c *console.Console) error {
				if err := c.SetLimits(cmd.Context(), args[0], console.LimitConcurrency(n)); err != nil {
					return err
				}
				_, err := fmt.Fprintf(t.out, "%s: concurrency %s\n", args[0], args[1])
				return err
			})
		},
	}
}

func parseRate(text string) (*task.Rate, error) {
	switch text {
	case asConfigured:
		return nil, nil //nolint:nilnil // nil is a value here.
	case noLimit:
		return &task.Rate{}, nil
	}
	rate, err := task.ParseRate(text)
	return &rate, err
}

func parseConcurrency(text string) (*int, error) {
	n := 0
	switch text {
	case asConfigured:
		return nil, nil //nolint:nilnil // nil is a value here.
	case noLimit:
		return &n, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > task.MaxConcurrency {
		return nil, fmt.Errorf("concurrency must be 1 to %d, none or default, not %q", task.MaxConcurrency, text)
	}
	return &n, nil
}
