package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/parts"
	"github.com/duetime/duetime/internal/pet"
	"github.com/duetime/duetime/internal/verify"
	"github.com/duetime/duetime/pkg/task"
)

// verified is what verify answers.
type verified struct {
	Pending   int64 `json:"pending"`
	Done      int64 `json:"done"`
	Cancelled int64 `json:"cancelled"`
	Dead      int64 `json:"dead"`
	Overdue   int64 `json:"overdue"`
	Missing   int64 `json:"missing"`
	Extra     int64 `json:"extra"`
	Lost      int64 `json:"lost"`
	Duplicate int64 `json:"duplicate"`
	Early     int64 `json:"early"`
}

func (v verified) broken() bool {
	return v.Lost+v.Duplicate+v.Early+v.Overdue+v.Missing+v.Extra > 0
}

func (t *tool) verify() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "verify", Short: "Compare MySQL, Redis and the game's journal, and count what is wrong", Args: cobra.NoArgs,
		Long: `Compare MySQL, Redis and the game's journal, and count what is wrong.

overdue: pending beyond daemon.grace. missing, extra: entries that Redis lacks, or has too many, in either set, and still
after 2 s. lost, duplicate, early: what the pet game's journal shows, where that table is. Exit code 1 if any of these is
above 0, 2 if a server can't be reached.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.with(cmd.Context(), func(p *parts.Parts) error { return t.runVerify(cmd.Context(), p, asJSON) })
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write one JSON object")
	return cmd
}

func (t *tool) runVerify(ctx context.Context, p *parts.Parts, asJSON bool) error {
	v, err := examine(ctx, p)
	if err != nil {
		return err
	}
	if asJSON {
		err = json.NewEncoder(t.out).Encode(v)
	} else {
		_, err = fmt.Fprintf(t.out, `pending    %d
done       %d
cancelled  %d
dead       %d
overdue    %d
missing    %d
extra      %d
lost       %d
duplicate  %d
early      %d
`, v.Pending, v.Done, v.Cancelled, v.Dead, v.Overdue, v.Missing, v.Extra, v.Lost, v.Duplicate, v.Early)
	}
	if err == nil && v.broken() {
		return exit{code: 1}
	}
	return err
}

func examine(ctx context.Context, p *parts.Parts) (verified, error) {
	var v verified
	shards, err := p.Store.ShardsEver(ctx)
	if err != nil {
		return v, err
	}
	drift, err := verify.Check(ctx, p.Store, p.Index, shards)
	if err != nil {
		return v, err
	}
	v.Missing, v.Extra = drift.Missing, drift.Extra
	if v.Overdue, err = p.Store.Overdue(ctx, p.Config.Daemon.Grace); err != nil {
		return v, err
	}
	counts, err := p.Store.Counts(ctx)
	if err != nil {
		return v, err
	}
	v.Pending, v.Done = counts[task.Pending], counts[task.Done]
	v.Cancelled, v.Dead = counts[task.Cancelled], counts[task.Dead]
	return journaled(ctx, p, v)
}

// journaled adds what the game's journal shows, where there is one.
func journaled(ctx context.Context, p *parts.Parts, v verified) (verified, error) {
	there, err := pet.HasJournal(ctx, p.Store.DB())
	if err != nil || !there {
		return v, err
	}
	found, err := pet.Audit(ctx, p.Store.DB(), p.Config.Daemon.Retention, func(ctx context.Context, ids []task.ID) ([]task.Task, error) {
		return p.Store.Get(ctx, nil, ids)
	})
	v.Lost, v.Duplicate, v.Early = found.Lost, found.Duplicate, found.Early
	return v, err
}
