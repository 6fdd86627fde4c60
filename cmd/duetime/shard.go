package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/pkg/console"
)

func (t *tool) shard() *cobra.Command {
	cmd := &cobra.Command{Use: "shard", Short: "Look at the shards of the index, rebuild them, and change their number", Args: cobra.NoArgs, RunE: needsCommand}
	cmd.AddCommand(t.shardStat(), t.shardRebuild())
	cmd.AddCommand(t.shardChange("grow", "Raise the number of shards"), t.shardChange("shrink", "Lower the number of shards"))
	return cmd
}

func (t *tool) shardStat() *cobra.Command {
	cmd := &cobra.Command{
		Use: "stat", Short: "Show what each shard of the index holds, and how far a change of their number is", Args: cobra.NoArgs,
	}
	t.jsonFlag(cmd, jsonArray)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return t.with(cmd.Context(), func(c *console.Console) error {
			all, err := c.Shards(cmd.Context())
			if err != nil {
				return err
			}
			return show(t, all, func(all []console.Shard) error {
				if err := t.writeIndex(cmd.Context(), c); err != nil {
					return err
				}
				return t.writeShards(all)
			})
		})
	}
	return cmd
}

// writeIndex writes how far a change of the number is, and what the index leaves out.
func (t *tool) writeIndex(ctx context.Context, c *console.Console) error {
	change, err := c.ShardChange(ctx, rateTime)
	if err != nil {
		return err
	}
	horizon, partial, err := c.Horizon(ctx)
	for _, text := range []string{changeText(change), horizonText(horizon, partial)} {
		if err == nil && text != "" {
			_, err = fmt.Fprintln(t.out, text)
		}
	}
	return err
}

// horizonText describes an index that lacks tasks; empty if it has all.
func horizonText(d time.Duration, partial bool) string {
	switch {
	case d > 0:
		return fmt.Sprintf("horizon %v: tasks that are due later stand in MySQL alone", d)
	case partial:
		return "the horizon is changing: Redis may lack tasks that are due late"
	default:
		return ""
	}
}

func (t *tool) writeShards(shards []console.Shard) error {
	lines := [][]string{{"SHARD", "DUE SET", "OLDEST", "OWNERS", "MARKER", "EPOCH"}}
	for _, s := range shards {
		oldest := "-"
		if s.OldestMs != nil {
			oldest = sinceNow(*s.OldestMs)
		}
		lines = append(lines, []string{
			strconv.Itoa(s.Shard), fmt.Sprint(s.Due), oldest, fmt.Sprint(*s.Owners), s.Marker, fmt.Sprint(s.Epoch),
		})
	}
	return writeTable(t.out, lines)
}

func (t *tool) shardRebuild() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "rebuild (SHARD... | --all)", Short: "Have the daemon rebuild shards of the index from the rows",
		Long: `Have the daemon rebuild shards of the index from the rows.

Their generation markers are taken away, as if Redis had lost them; the daemon sees that within a second, puts all pending
tasks of the shards again, and sets the markers at the end. Tasks fire meanwhile as before.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return errors.New("give either shards or --all")
			}
			return t.with(cmd.Context(), func(c *console.Console) error {
				n, err := c.ShardCount(cmd.Context())
				if err != nil {
					return err
				}
				shards, err := whichShards(n, args)
				if err != nil {
					return err
				}
				if err := t.confirm(cmd.Context(), "rebuild "+console.ShardNames(shards)+"?"); err != nil {
					return err
				}
				return t.rebuild(cmd.Context(), c, shards)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "all shards")
	return cmd
}

// whichShards reads the arguments, which name some of n shards. No arguments mean all shards.
func whichShards(n int, args []string) ([]int, error) {
	var shards []int
	if len(args) == 0 {
		for s := range n {
			shards = append(shards, s)
		}
	}
	for _, arg := range args {
		s, err := strconv.Atoi(arg)
		if err != nil || s < 0 || s >= n {
			return nil, fmt.Errorf("shard %q: is not 0 to %d", arg, n-1)
		}
		shards = append(shards, s)
	}
	slices.Sort(shards)
	return slices.Compact(shards), nil
}

func (t *tool) rebuild(ctx context.Context, c *console.Console, shards []int) error {
	began := time.Now()
	bar := t.progress("rebuild", console.RebuildSteps*len(shards))
	err := c.Rebuild(ctx, shards, bar.set)
	bar.end()
	if err == nil {
		_, err = fmt.Fprintf(t.out, "rebuilt %s in %v\n", console.ShardNames(shards), time.Since(began).Round(time.Millisecond))
	}
	return err
}
