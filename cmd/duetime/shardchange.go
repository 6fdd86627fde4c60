package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/pkg/console"
)

// rateTime is how long shard stat measures the rate of a change.
const rateTime = time.Second

// shardChange is the command grow, or shrink.
func (t *tool) shardChange(verb, short string) *cobra.Command {
	var pause, resume, cancel bool
	cmd := &cobra.Command{
		Use: verb + " (N | --pause | --resume | --cancel)", Short: short, Args: cobra.MaximumNArgs(1),
		Long: short + `.

Everything goes on meanwhile. New tasks go to their new place at once; the daemon moves the pending and dead ones, those that
are due soon first. Owners' lists come from MySQL until it is over. Doubling the number moves half of the owners. shard stat
shows how far it is. A cancelled change goes back in the same way.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, flags := cmd.Context(), 0
			for _, set := range []bool{pause, resume, cancel} {
				if set {
					flags++
				}
			}
			if flags+len(args) != 1 {
				return errors.New("give either a number of shards, --pause, --resume or --cancel")
			}
			return t.with(ctx, func(c *console.Console) error {
				switch {
				case cancel:
					return t.cancelShards(ctx, c)
				case pause || resume:
					return t.pauseShards(ctx, c, pause)
				}
				return t.changeShards(ctx, c, verb, args[0])
			})
		},
	}
	cmd.Flags().BoolVar(&pause, "pause", false, "leave rows where they are until --resume")
	cmd.Flags().BoolVar(&resume, "resume", false, "go on after --pause")
	cmd.Flags().BoolVar(&cancel, "cancel", false, "go back to the number before")
	return cmd
}

func (t *tool) changeShards(ctx context.Context, c *console.Console, verb, arg string) error {
	n, err := strconv.Atoi(arg)
	if err != nil {
		return fmt.Errorf("%q is not a number of shards", arg)
	}
	now, err := c.ShardChange(ctx, 0)
	if err != nil {
		return err
	}
	if now.From == 0 && (verb == "grow" && n < now.Shards || verb == "shrink" && n > now.Shards) {
		return fmt.Errorf("there are %d shards: %d is the other direction", now.Shards, n)
	}
	if err := t.confirm(ctx, fmt.Sprintf("%s %d shards to %d?", verb, now.Shards, n)); err != nil {
		return err
	}
	begun, err := c.ChangeShards(ctx, n)
	if err != nil {
		return err
	}
	said := "begun: duetime shard stat shows how far it is"
	if !begun {
		said = "is going on already"
	}
	_, err = fmt.Fprintf(t.out, "%s to %d shards %s\n", verb, n, said)
	return err
}

func (t *tool) pauseShards(ctx context.Context, c *console.Console, paused bool) error {
	changed, err := c.PauseShards(ctx, paused)
	if err != nil {
		return err
	}
	said := map[bool]map[bool]string{
		true:  {true: "is paused", false: "was paused already"},
		false: {true: "goes on", false: "was not paused"},
	}[paused][changed]
	_, err = fmt.Fprintln(t.out, "the change of shards", said)
	return err
}

func (t *tool) cancelShards(ctx context.Context, c *console.Console) error {
	if err := t.confirm(ctx, "go back to the number of shards before?"); err != nil {
		return err
	}
	n, err := c.CancelShards(ctx)
	if err == nil {
		_, err = fmt.Fprintf(t.out, "the change of shards goes back to %d\n", n)
	}
	return err
}

// changeText describes a change that is going on; empty if none is.
func changeText(s console.ShardChange) string {
	if s.From == 0 {
		return ""
	}
	text := fmt.Sprintf("moving %d → %d", s.From, s.Shards)
	if s.Paused {
		text += ", paused"
	}
	switch {
	case s.ToMove == 0:
		return text + ": the rows are not counted yet"
	case s.Moved >= s.ToMove:
		return text + fmt.Sprintf(": %d rows moved, looking for the last ones", s.Moved)
	}
	text += fmt.Sprintf(": %d of about %d rows moved", s.Moved, s.ToMove)
	if s.Rate > 0 {
		text += fmt.Sprintf(", %.0f/s, about %v left", s.Rate, s.Left().Round(time.Second))
	}
	return text
}
