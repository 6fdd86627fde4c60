package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/pkg/console"
)

func (t *tool) leader() *cobra.Command {
	cmd := &cobra.Command{Use: "leader", Short: "Look at who leads, and have a leader hand over", Args: cobra.NoArgs, RunE: needsCommand}
	cmd.AddCommand(t.leaderShow(), t.leaderResign())
	return cmd
}

func (t *tool) leaderShow() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show", Short: "Show the newest term of event and daemon", Args: cobra.NoArgs,
		Long: `Show the newest term of event and daemon.

The epoch is that of the newest election. A process that leads says so in MySQL every few seconds: where none has for 15 s, as after a
crash or in a restored backup, no living process leads the term. The event leader claims in every shard each second, each four seconds where there
are many: as long as one works, all shards stand at its epoch.`,
	}
	shows(t, cmd, (*console.Console).Leaders, t.writeLeaders)
	return cmd
}

func (t *tool) writeLeaders(leaders []console.Leader) error {
	lines := [][]string{{"LEADER", "EPOCH", "LED BY", "SHARDS AT IT", "ASKED TO RESIGN"}}
	for _, l := range leaders {
		shards, asked, by := "-", "no", "no living process"
		if l.Shards != nil {
			shards = fmt.Sprintf("%d of %d", *l.Shards, *l.Of)
		}
		if l.Resigns {
			asked = "yes"
		}
		if l.Host != "" {
			by = oneLine(l.Host)
		}
		lines = append(lines, []string{l.Name, strconv.FormatInt(l.Epoch, 10), by, shards, asked})
	}
	return writeTable(t.out, lines)
}

func (t *tool) leaderResign() *cobra.Command {
	return &cobra.Command{
		Use: "resign [event | daemon]", Short: "Have the leader hand over to the next candidate", Args: cobra.MaximumNArgs(1),
		Long: `Have the leader hand over to the next candidate.

It looks each second at what is asked in MySQL, ends its term and stands last; the next one leads within milliseconds of
that. Where it is the only candidate it leads again itself, under a new epoch. Without a name it is the leader of event.`,
		ValidArgsFunction: first(fixed(console.LeaderNames()...)),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := console.LeaderEvent
			if len(args) > 0 {
				name = args[0]
			}
			if err := console.CheckLeader(name); err != nil {
				return err
			}
			if err := t.confirm(cmd.Context(), "have the leader of "+name+" resign?"); err != nil {
				return err
			}
			return t.with(cmd.Context(), func(c *console.Console) error {
				r, err := c.Resign(cmd.Context(), name, 0)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(t.out, "%s: epoch %d after %d, %v after it was asked\n", name, r.Epoch, r.Before, r.Took.Round(time.Millisecond))
				return err
			})
		},
	}
}
