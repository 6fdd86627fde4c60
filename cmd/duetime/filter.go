package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/store"
)

// chosen is what the flags say about which tasks are meant.
type chosen struct {
	owner, kind, queue string
	after, before      string // RFC 3339
	limit              int
}

func (t *tool) filterFlags(cmd *cobra.Command, f *chosen) {
	cmd.Flags().StringVar(&f.owner, "owner", "", "only tasks of this owner")
	cmd.Flags().StringVar(&f.kind, "kind", "", "only tasks of this kind")
	cmd.Flags().StringVar(&f.queue, "queue", "", "only tasks of this queue")
	cmd.Flags().StringVar(&f.after, "due-after", "", "only tasks due at this time or after it (RFC 3339)")
	cmd.Flags().StringVar(&f.before, "due-before", "", "only tasks due before this time (RFC 3339)")
	complete(cmd, "queue", t.queues)
	complete(cmd, "kind", t.kinds)
}

// mostListed bounds what is listed, mostChanged what one command changes.
const (
	mostListed  = 100_000
	mostChanged = 10_000_000
)

func (f chosen) filter() (store.Filter, error) {
	out := store.Filter{Owner: f.owner, Kind: f.kind, Queue: f.queue, Limit: f.limit}
	if f.limit < 1 || f.limit > mostListed {
		return out, fmt.Errorf("--limit: %d is not between 1 and %d", f.limit, mostListed)
	}
	return out, f.window(&out)
}

func (f chosen) window(out *store.Filter) (err error) {
	for _, bound := range []struct {
		flag, text string
		to         *time.Time
	}{{"--due-after", f.after, &out.DueAfter}, {"--due-before", f.before, &out.DueBefore}} {
		if bound.text == "" {
			continue
		}
		if *bound.to, err = time.Parse(time.RFC3339, bound.text); err != nil {
			return fmt.Errorf("%s: %w", bound.flag, err)
		}
	}
	return nil
}

// empty says that no flag chooses among tasks.
func (f chosen) empty() bool { return f.owner+f.kind+f.queue+f.after+f.before == "" }
