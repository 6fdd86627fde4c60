package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/operate"
	"github.com/duetime/duetime/internal/parts"
	"github.com/duetime/duetime/pkg/task"
)

func (t *tool) shard() *cobra.Command {
	cmd := &cobra.Command{Use: "shard", Short: "Look at the shards of the index and rebuild them", Args: cobra.NoArgs, RunE: needsCommand}
	cmd.AddCommand(t.shardStat(), t.shardRebuild())
	return cmd
}

// shardView is a shard as the tool shows it.
type shardView struct {
	Shard    int          `json:"shard"`
	Due      int64        `json:"due"`
	OldestMs *int64       `json:"oldest_due_ms,omitempty"`
	Owners   int64        `json:"owners"`
	Marker   index.Marker `json:"marker"`
	Epoch    int64        `json:"epoch"`
}

func (t *tool) shardStat() *cobra.Command {
	cmd := &cobra.Command{
		Use: "stat", Short: "Show what each shard of the index holds", Args: cobra.NoArgs,
	}
	shows(t, cmd, readShards, t.writeShards)
	return cmd
}

// shows has the command read something, and write it as a table or, with --json, as it is.
func shows[V any](t *tool, cmd *cobra.Command, read func(context.Context, *parts.Parts) ([]V, error), table func([]V) error) {
	var asJSON bool
	cmd.Flags().BoolVar(&asJSON, "json", false, "write a JSON array")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return t.with(cmd.Context(), func(p *parts.Parts) error {
			views, err := read(cmd.Context(), p)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(t.out, views)
			}
			return table(views)
		})
	}
}

func readShards(ctx context.Context, p *parts.Parts) ([]shardView, error) {
	shards, err := allShards(ctx, p)
	if err != nil {
		return nil, err
	}
	owners, err := p.Index.OwnerSets(ctx, len(shards))
	if err != nil {
		return nil, err
	}
	views := make([]shardView, len(shards))
	for i, s := range shards {
		views[i] = shardView{Shard: i, Due: s.Due, Owners: owners[i], Marker: s.Marker, Epoch: s.Epoch}
		if !s.Oldest.IsZero() {
			views[i].OldestMs = new(s.Oldest.UnixMilli())
		}
	}
	return views, nil
}

func allShards(ctx context.Context, p *parts.Parts) ([]index.Shard, error) {
	n, err := p.Store.ShardsEver(ctx)
	if err != nil {
		return nil, err
	}
	return p.Index.Shards(ctx, n)
}

func (t *tool) writeShards(views []shardView) error {
	lines := [][]string{{"SHARD", "DUE SET", "OLDEST", "OWNERS", "MARKER", "EPOCH"}}
	now := time.Now()
	for _, v := range views {
		oldest := "-"
		if v.OldestMs != nil {
			oldest = relative(time.UnixMilli(*v.OldestMs).Sub(now))
		}
		lines = append(lines, []string{
			strconv.Itoa(v.Shard), fmt.Sprint(v.Due), oldest, fmt.Sprint(v.Owners), string(v.Marker), fmt.Sprint(v.Epoch),
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
			return t.with(cmd.Context(), func(p *parts.Parts) error {
				shards, err := whichShards(cmd.Context(), p, args)
				if err != nil {
					return err
				}
				if err := t.confirm(cmd.Context(), "rebuild "+shardNames(shards)+"?"); err != nil {
					return err
				}
				return t.rebuild(cmd.Context(), p, shards)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "all shards")
	return cmd
}

// whichShards reads the arguments; none are all.
func whichShards(ctx context.Context, p *parts.Parts, args []string) ([]int, error) {
	n, err := p.Store.ShardsEver(ctx)
	if err != nil {
		return nil, err
	}
	var shards []int
	for s := range n {
		shards = append(shards, s)
	}
	if len(args) == 0 {
		return shards, nil
	}
	shards = nil
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

func shardNames(shards []int) string {
	const few = 5
	if len(shards) > few {
		return fmt.Sprintf("%d shards", len(shards))
	}
	name := plural(len(shards), "shard")
	for i, s := range shards {
		if i > 0 {
			name += ","
		}
		name += " " + strconv.Itoa(s)
	}
	return name
}

const (
	rebuildLook  = 200 * time.Millisecond // between looks at the markers
	rebuildBegin = 30 * time.Second       // for a daemon to take notice; the markers stay away, and a later daemon does
)

// rebuild takes the markers away and waits until all stand again. Each is two steps: building, and complete.
func (t *tool) rebuild(ctx context.Context, p *parts.Parts, shards []int) error {
	if err := operate.New(p.Store, p.Actor).Note(ctx, task.EventRebuild, shardNames(shards)); err != nil {
		return err
	}
	if err := p.Index.Unmark(ctx, shards); err != nil {
		return err
	}
	began, steps := time.Now(), 2*len(shards)
	bar := t.progress("rebuild", steps)
	defer bar.end()
	for {
		done, err := rebuilt(ctx, p, shards)
		if err != nil {
			return err
		}
		bar.set(done)
		if done == steps {
			break
		}
		if done == 0 && time.Since(began) > rebuildBegin {
			return fmt.Errorf("no daemon has begun within %v: is one running? (it will, once it runs)", rebuildBegin)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting given up, the rebuild goes on: %w", ctx.Err())
		case <-time.After(rebuildLook):
		}
	}
	bar.end()
	bar.bar = nil
	_, err := fmt.Fprintf(t.out, "rebuilt %s in %v\n", shardNames(shards), time.Since(began).Round(time.Millisecond))
	return err
}

// rebuilt counts the steps done.
func rebuilt(ctx context.Context, p *parts.Parts, shards []int) (int, error) {
	all, err := p.Index.Shards(ctx, slices.Max(shards)+1)
	if err != nil {
		return 0, err
	}
	done := 0
	for _, s := range shards {
		done += map[index.Marker]int{index.MarkerBuilding: 1, index.MarkerComplete: 2}[all[s].Marker]
	}
	return done, nil
}
