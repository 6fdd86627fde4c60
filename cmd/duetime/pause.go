package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/operate"
	"github.com/duetime/duetime/internal/parts"
)

func (t *tool) pause() *cobra.Command {
	var list, asJSON bool
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
				return t.with(cmd.Context(), func(p *parts.Parts) error { return t.listPauses(cmd.Context(), p, asJSON) })
			}
			return t.with(cmd.Context(), func(p *parts.Parts) error { return t.pauseQueue(cmd.Context(), p, args[0]) })
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "list the paused queues")
	cmd.Flags().BoolVar(&asJSON, "json", false, "with --list, write a JSON array")
	return cmd
}

func (t *tool) pauseQueue(ctx context.Context, p *parts.Parts, queue string) error {
	if !slices.Contains(p.Config.Queues, queue) {
		return fmt.Errorf("queue %q is none of the configuration's: %s", queue, strings.Join(p.Config.Queues, ", "))
	}
	changed, err := operate.New(p.Store, p.Actor).Pause(ctx, queue)
	if err != nil {
		return err
	}
	return t.say(changed, queue+" is paused", queue+" was paused already")
}

func (t *tool) resume() *cobra.Command {
	return &cobra.Command{
		Use: "resume QUEUE", Short: "End the pause of a queue", Args: cobra.ExactArgs(1), ValidArgsFunction: first(t.queues),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.with(cmd.Context(), func(p *parts.Parts) error {
				changed, err := operate.New(p.Store, p.Actor).Resume(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return t.say(changed, args[0]+" goes on", args[0]+" was not paused")
			})
		},
	}
}

func (t *tool) say(changed bool, so, otherwise string) error {
	if !changed {
		so = otherwise
	}
	_, err := fmt.Fprintln(t.out, so)
	return err
}

func (t *tool) listPauses(ctx context.Context, p *parts.Parts, asJSON bool) error {
	paused, err := p.Store.Paused(ctx)
	if err != nil {
		return err
	}
	type view struct {
		Queue   string `json:"queue"`
		SinceMs int64  `json:"since_ms"`
	}
	views := []view{}
	for _, queue := range slices.Sorted(maps.Keys(paused)) {
		views = append(views, view{queue, paused[queue].UnixMilli()})
	}
	if asJSON {
		return writeJSON(t.out, views)
	}
	lines := [][]string{{"QUEUE", "PAUSED SINCE"}}
	for _, v := range views {
		lines = append(lines, []string{v.Queue, time.UnixMilli(v.SinceMs).In(t.location()).Format(time.RFC3339)})
	}
	return writeTable(t.out, lines)
}
