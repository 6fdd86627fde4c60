package console

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// A search without an owner and without a label has no index by due time. It walks through the tasks of one state by their next
// attempts, and reads a bounded number of them for a bounded time: with millions of rows a page takes no longer than with
// thousands.

const (
	walkPage     = 500                    // rows of one statement
	walkScanned  = 10_000                 // rows that one walk reads at most
	walkPatience = 100 * time.Millisecond // after which a page of a search reads no further
	walkMark     = "r"                    // begins a cursor of a walk: the other lists have another order
)

// walks reports whether the filter is for a walk.
func (f Filter) walks() bool { return f.Owner == "" && len(f.Labels) == 0 }

// walk reads a page of the tasks that the filter chooses, in the order of their run times, until the patience is over; 0 has no
// end. The filter's state must be set. A page may have fewer tasks than its limit, or none, and yet a next one. DueAfter and
// DueBefore bound the run time.
func (c *Console) walk(ctx context.Context, f Filter, patience time.Duration) (Page, error) {
	began := time.Now()
	after, err := parseWalkCursor(f.After)
	if err != nil {
		return Page{}, err
	}
	to := f.DueBefore
	if to.IsZero() {
		to = maxDue
	}
	page, limit := Page{Tasks: []Task{}}, cmp.Or(f.Limit, DefaultPage)
	for range walkScanned / walkPage {
		rows, err := c.store.Walk(ctx, *f.State, f.DueAfter, to, after, walkPage)
		if err != nil {
			return Page{}, err
		}
		for _, row := range rows {
			if len(page.Tasks) == limit {
				page.Next = formatWalkCursor(after)
				return page, nil
			}
			after = task.Cursor{At: row.RunAt, ID: row.ID}
			if f.picks(row) {
				page.Tasks = append(page.Tasks, TaskOf(row))
			}
		}
		if len(rows) < walkPage {
			return page, nil
		}
		if patience > 0 && time.Since(began) >= patience {
			break
		}
	}
	page.Next = formatWalkCursor(after)
	return page, nil
}

// walk is a search's walk. One goes on at a time: many would make each other slow, and tasks late.
func (s *site) walk(ctx context.Context, f Filter) (Page, error) {
	select {
	case s.walks <- struct{}{}:
		defer func() { <-s.walks }()
	case <-ctx.Done():
		return Page{}, ctx.Err()
	}
	return s.c.walk(ctx, f, walkPatience)
}

// picks compares what the walk's statement does not.
func (f Filter) picks(row task.Task) bool {
	return (f.Kind == "" || f.Kind == row.Kind) && (f.Queue == "" || f.Queue == row.Queue) &&
		(f.Subject == "" || f.Subject == row.Subject)
}

func formatWalkCursor(after task.Cursor) string {
	return walkMark + formatCursor(task.Task{DueAt: after.At, ID: after.ID})
}

func parseWalkCursor(text string) (task.Cursor, error) {
	if text == "" {
		return task.Cursor{}, nil
	}
	place, ours := strings.CutPrefix(text, walkMark)
	at, err := parseCursor(place)
	if !ours || err != nil {
		return task.Cursor{}, fmt.Errorf("%w as a place in a list: %q", errMistake, text)
	}
	return at, nil
}
