package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/parts"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/task"
)

// chosen is what the flags say about which tasks are meant.
type chosen struct {
	owner, kind, queue  string
	dueAfter, dueBefore string
	after               string // the cursor
	limit               int
}

func (t *tool) filterFlags(cmd *cobra.Command, f *chosen) {
	cmd.Flags().StringVar(&f.owner, "owner", "", "only tasks of this owner")
	cmd.Flags().StringVar(&f.kind, "kind", "", "only tasks of this kind")
	cmd.Flags().StringVar(&f.queue, "queue", "", "only tasks of this queue")
	cmd.Flags().StringVar(&f.dueAfter, "due-after", "", "only tasks due at this time or after it: "+timeForms)
	cmd.Flags().StringVar(&f.dueBefore, "due-before", "", "only tasks due before this time")
	complete(cmd, "queue", t.queues)
	complete(cmd, "kind", t.kinds)
}

// mostListed bounds what is listed, mostChanged what one command changes.
const (
	mostListed  = 100_000
	mostChanged = 10_000_000
)

// listFlags are those of the commands that list tasks.
func (t *tool) listFlags(cmd *cobra.Command, f *chosen, asJSON *bool) {
	t.filterFlags(cmd, f)
	cmd.Flags().IntVar(&f.limit, "limit", 100, "most tasks to list, 1 to 100000")
	cmd.Flags().StringVar(&f.after, "after", "", "go on behind this place, as an earlier list named it")
	cmd.Flags().BoolVar(asJSON, "json", false, "write a JSON array")
}

// filter is that of a list: one task more than was asked for tells whether there are more.
func (f chosen) filter(now time.Time) (store.Filter, error) {
	out := store.Filter{Owner: f.owner, Kind: f.kind, Queue: f.queue, Limit: f.limit + 1}
	if f.limit < 1 || f.limit > mostListed {
		return out, fmt.Errorf("--limit: %d is not between 1 and %d", f.limit, mostListed)
	}
	if f.after != "" {
		var err error
		if out.After, err = parseCursor(f.after); err != nil {
			return out, fmt.Errorf("--after: %w", err)
		}
	}
	return out, f.window(&out, now)
}

// window reads the bounds of the due time. now is of this machine's clock, in the zone of the operator.
func (f chosen) window(out *store.Filter, now time.Time) error {
	for _, bound := range []struct {
		flag, text string
		to         *time.Time
	}{{"--due-after", f.dueAfter, &out.DueAfter}, {"--due-before", f.dueBefore, &out.DueBefore}} {
		if bound.text == "" {
			continue
		}
		m, err := parseMoment(bound.text, now, today)
		if err != nil {
			return fmt.Errorf("%s: %w", bound.flag, err)
		}
		*bound.to = m.on(now)
	}
	return nil
}

// empty says that no flag chooses among tasks.
func (f chosen) empty() bool { return f.owner+f.kind+f.queue+f.dueAfter+f.dueBefore == "" }

// A cursor is a place in the order of a list, (due_at, id): the due time in Unix ms, and the id. It stays right whatever
// becomes of the task there.
const cursorParts = "_"

func cursorOf(row task.Task) string {
	return strconv.FormatInt(row.DueAt.UnixMilli(), 10) + cursorParts + row.ID.String()
}

func parseCursor(text string) (task.Cursor, error) {
	due, id, _ := strings.Cut(text, cursorParts)
	ms, err := strconv.ParseInt(due, 10, 64)
	if err != nil {
		return task.Cursor{}, fmt.Errorf("%q is no place in a list, such as 1767225600000%s%s", text, cursorParts, task.ID{})
	}
	at, err := task.ParseID(id)
	if err != nil {
		return task.Cursor{}, err
	}
	return task.Cursor{At: time.UnixMilli(ms), ID: at}, nil
}

// listed reads a list, writes it, and says on standard error where it can be gone on with: standard output holds tasks only.
func (t *tool) listed(ctx context.Context, f chosen, state *task.State, write func([]task.Task) error) error {
	filter, err := f.filter(t.now())
	if err != nil {
		return err
	}
	filter.State = state
	return t.with(ctx, func(p *parts.Parts) error {
		rows, err := p.Store.List(ctx, filter)
		if err != nil {
			return err
		}
		shown := rows[:min(len(rows), f.limit)]
		if err := write(shown); err != nil || len(shown) == len(rows) {
			return err
		}
		_, err = fmt.Fprintf(t.errs, "there are more: go on with --after %s\n", cursorOf(shown[len(shown)-1]))
		return err
	})
}
