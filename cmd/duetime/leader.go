package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/operate"
	"github.com/duetime/duetime/internal/parts"
)

// leaders are what is led.
var leaders = []string{"event", "daemon"}

func (t *tool) leader() *cobra.Command {
	cmd := &cobra.Command{Use: "leader", Short: "Look at who leads, and have a leader hand over", Args: cobra.NoArgs, RunE: needsCommand}
	cmd.AddCommand(t.leaderShow(), t.leaderResign())
	return cmd
}

// leaderView is a leadership as the tool shows it.
type leaderView struct {
	Name    string `json:"name"`
	Epoch   int64  `json:"epoch"`            // of the newest term, in MySQL
	Shards  *int   `json:"shards,omitempty"` // of event: those that were claimed under it
	Of      *int   `json:"of,omitempty"`
	Resigns bool   `json:"resigns"` // it was asked to
}

func (t *tool) leaderShow() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show", Short: "Show the newest term of event and daemon", Args: cobra.NoArgs,
		Long: `Show the newest term of event and daemon.

The epoch is that of the newest election. The event leader claims in every shard each second, each four seconds where there
are many: as long as one works, all shards stand at its epoch.`,
	}
	shows(t, cmd, readLeaders, t.writeLeaders)
	return cmd
}

func readLeaders(ctx context.Context, p *parts.Parts) ([]leaderView, error) {
	var views []leaderView
	for _, name := range leaders {
		epoch, err := p.Store.Current(ctx, name)
		if err != nil {
			return nil, err
		}
		asked, err := p.Store.Resigned(ctx, name)
		if err != nil {
			return nil, err
		}
		views = append(views, leaderView{Name: name, Epoch: epoch, Resigns: epoch > 0 && asked >= epoch})
	}
	shards, err := allShards(ctx, p)
	if err != nil {
		return nil, err
	}
	at, n := 0, len(shards)
	for _, s := range shards {
		if s.Epoch == views[0].Epoch {
			at++
		}
	}
	views[0].Shards, views[0].Of = &at, &n
	return views, nil
}

func (t *tool) writeLeaders(views []leaderView) error {
	lines := [][]string{{"LEADER", "EPOCH", "SHARDS AT IT", "ASKED TO RESIGN"}}
	for _, v := range views {
		shards, asked := "-", "no"
		if v.Shards != nil {
			shards = fmt.Sprintf("%d of %d", *v.Shards, *v.Of)
		}
		if v.Resigns {
			asked = "yes"
		}
		lines = append(lines, []string{v.Name, strconv.FormatInt(v.Epoch, 10), shards, asked})
	}
	return writeTable(t.out, lines)
}

func (t *tool) leaderResign() *cobra.Command {
	return &cobra.Command{
		Use: "resign [event | daemon]", Short: "Have the leader hand over to the next candidate", Args: cobra.MaximumNArgs(1),
		Long: `Have the leader hand over to the next candidate.

It looks each second at what is asked in MySQL, ends its term and stands last; the next one leads within milliseconds of
that. Where it is the only candidate it leads again itself, under a new epoch. Without a name it is the leader of event.`,
		ValidArgsFunction: first(fixed(leaders...)),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := leaders[0]
			if len(args) > 0 {
				name = args[0]
			}
			if name != leaders[0] && name != leaders[1] {
				return fmt.Errorf("%q is neither event nor daemon", name)
			}
			if err := t.confirm(cmd.Context(), "have the leader of "+name+" resign?"); err != nil {
				return err
			}
			return t.with(cmd.Context(), func(p *parts.Parts) error { return t.resign(cmd.Context(), p, name) })
		},
	}
}

const resignWithin = 20 * time.Second // a look each second, a hand-over, and a session's timeout to spare

func (t *tool) resign(ctx context.Context, p *parts.Parts, name string) error {
	began := time.Now()
	epoch, err := operate.New(p.Store, p.Actor).Resign(ctx, name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, resignWithin)
	defer cancel()
	for {
		now, err := p.Store.Current(ctx, name)
		if err == nil && now > epoch {
			_, err = fmt.Fprintf(t.out, "%s: epoch %d after %d, %v after it was asked\n", name, now, epoch, time.Since(began).Round(time.Millisecond))
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: epoch %d was not followed by another within %v: does any process lead?", name, epoch, resignWithin)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
