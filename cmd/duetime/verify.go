package main

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/parts"
	"github.com/duetime/duetime/internal/pet"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/verify"
	"github.com/duetime/duetime/pkg/task"
)

// stuckAfter is how long a task may wait for its worker without being stuck: by then its hint has been put again several
// times.
const stuckAfter = 10 * time.Minute

// verified is what verify answers. What was not looked at is nil.
type verified struct {
	Pending   int64  `json:"pending"`
	Done      int64  `json:"done"`
	Cancelled int64  `json:"cancelled"`
	Dead      int64  `json:"dead"`
	Overdue   int64  `json:"overdue"`
	Missing   int64  `json:"missing"`
	Extra     int64  `json:"extra"`
	Stuck     int64  `json:"stuck"`
	Premature int64  `json:"premature"`
	Invalid   int64  `json:"invalid"`
	Lost      *int64 `json:"lost"`
	Duplicate *int64 `json:"duplicate"`
	Early     *int64 `json:"early"`
	Unhandled int64  `json:"unhandled,omitempty"`

	unhandled []store.Unhandled
	suspects  store.Suspects
	unchecked string // why the journal was not looked at
}

// count is one line of the answer for people.
type count struct {
	name string
	n    *int64 // nil: not looked at
	bad  bool   // any is
	note string
}

func (v verified) counts() []count {
	counts := []count{
		{name: "pending", n: &v.Pending},
		{name: "done", n: &v.Done},
		{name: "cancelled", n: &v.Cancelled},
		{name: "dead", n: &v.Dead},
		{name: "overdue", n: &v.Overdue, bad: true},
		{name: "missing", n: &v.Missing, bad: true},
		{name: "extra", n: &v.Extra, bad: true},
		{name: "stuck", n: &v.Stuck, bad: true},
		{name: "premature", n: &v.Premature, bad: true, note: firstOf(v.suspects.FirstPremature)},
		{name: "invalid", n: &v.Invalid, bad: true, note: firstOf(v.suspects.FirstInvalid)},
		{name: "lost", n: v.Lost, bad: true, note: v.unchecked},
		{name: "duplicate", n: v.Duplicate, bad: true, note: v.unchecked},
		{name: "early", n: v.Early, bad: true, note: v.unchecked},
	}
	if v.Unhandled > 0 {
		counts = append(counts, count{name: "unhandled", n: &v.Unhandled, note: unhandledNote(v.unhandled)})
	}
	return counts
}

func firstOf(id task.ID) string {
	if id.IsZero() {
		return ""
	}
	return "the first " + id.String()
}

func (v verified) broken() bool {
	for _, c := range v.counts() {
		if c.bad && c.n != nil && *c.n > 0 {
			return true
		}
	}
	return false
}

func (t *tool) verify() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "verify", Short: "Compare MySQL, Redis and the game's journal, and count what is wrong", Args: cobra.NoArgs,
		Long: `Compare MySQL, Redis and the game's journal, and count what is wrong.

MySQL against Redis. overdue: pending beyond daemon.grace. missing, extra: entries that Redis lacks, or has too many, in either
set, and still after 2 s.

The rows by themselves, of whatever kinds. stuck: overdue for more than 10 min in a queue that is not paused, so that nobody
works on them. premature: marked done before they were due. invalid: rows that no transition leaves behind, such as one
with more attempts than it may have, or ended without an end.

The journal of the pet game. lost, duplicate, early: what it shows, where that table is and may be read; otherwise they are
"not checked" (null in JSON), which leaves the exit code alone.

unhandled, if there are any: pending tasks of kinds that no worker which took them knows. They wait, and leave the exit code
alone.

Exit code 1 if any of the others is above 0, 2 if a server can't be reached. It reads all rows, in short statements that lock none.`,
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
		err = t.writeVerified(v)
	}
	if err == nil && v.broken() {
		return exit{code: 1}
	}
	return err
}

func (t *tool) writeVerified(v verified) error {
	var lines [][]string
	for _, c := range v.counts() {
		n := "not checked"
		if c.n != nil {
			n = strconv.FormatInt(*c.n, 10)
		}
		lines = append(lines, []string{c.name, n, c.note})
	}
	return writeTable(t.out, lines)
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
	if v.Stuck, err = p.Store.Stuck(ctx, stuckAfter); err != nil {
		return v, err
	}
	if v.suspects, err = p.Store.Suspects(ctx); err != nil {
		return v, err
	}
	v.Premature, v.Invalid = v.suspects.Premature, v.suspects.Invalid
	if v.unhandled, err = p.Store.Unhandled(ctx, 0); err != nil {
		return v, err
	}
	for _, u := range v.unhandled {
		v.Unhandled += u.Tasks
	}
	counts, err := p.Store.Counts(ctx)
	if err != nil {
		return v, err
	}
	v.Pending, v.Done = counts[task.Pending], counts[task.Done]
	v.Cancelled, v.Dead = counts[task.Cancelled], counts[task.Dead]
	return journaled(ctx, p, v)
}

// journaled adds what the game's journal shows, where there is one that may be read. Without any right on the table the
// server does not even say that it is there.
func journaled(ctx context.Context, p *parts.Parts, v verified) (verified, error) {
	there, err := pet.HasJournal(ctx, p.Store.DB())
	if err != nil {
		return v, err
	}
	if !there {
		v.unchecked = "no pet_journal in this schema, or no right to see it"
		return v, nil
	}
	found, err := pet.Audit(ctx, p.Store.DB(), p.Config.Daemon.Retention, func(ctx context.Context, ids []task.ID) ([]task.Task, error) {
		return p.Store.Get(ctx, nil, ids)
	})
	if store.IsRefused(err) {
		v.unchecked = "no right to read pet_journal"
		return v, nil
	}
	if err == nil {
		v.Lost, v.Duplicate, v.Early = &found.Lost, &found.Duplicate, &found.Early
	}
	return v, err
}
