package console

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/task"
)

// A search without an owner and without a label has no index by due time. It walks through the tasks of one state by their next
// attempts, and reads a bounded number of them for a bounded time: with millions of rows a page takes no longer than with
// thousands.

const (
	walkPage     = 500                   // rows that one statement reads
	walkScanned  = 10_000                // rows that one walk reads at most
	walkPatience = 60 * time.Millisecond // after which a page of a search reads no further: it may wait for another one before
	walkMark     = "r"                   // begins a cursor of a walk: the other lists have another order
	endedMark    = "e"                   // begins one among the tasks that ended a while ago, which come last: one that moves meanwhile is not missed
)

var maxDue = time.UnixMilli(1 << 41) // later than every due time that the index can hold

// Walks reports whether the filter is for a walk: ListBounded and the page's search then read tasks of all owners.
func (f Filter) Walks() bool { return f.Owner == "" && len(f.Labels) == 0 }

// ListBounded is List for callers who must not cost much, such as those of an API. A filter without an owner and a label walks
// through the tasks of its state, or the pending ones, by their run times: due times have no index of their own. A walk reads a bounded number of rows for a bounded time, so that a page may have fewer tasks than
// its limit, or none, and yet a next one. Let one such call go on at a time. A place in a list that is none is a
// *task.FieldError.
func (c *Console) ListBounded(ctx context.Context, f Filter) (Page, error) {
	if !f.Walks() {
		if f.After != "" && CheckCursor(f.After) != nil {
			return Page{}, errPlace
		}
		return c.List(ctx, f)
	}
	if f.State == nil {
		f.State = new(task.Pending)
	}
	return c.walk(ctx, f, walkPatience)
}

// Place is the place behind the first n tasks of the page, at least one, as Next names it: for a caller who leaves out the tasks after them.
func (p Page) Place(n int) string {
	switch t := p.Tasks[n-1]; {
	case !p.walked:
		return formatCursor(task.Task{DueAt: time.UnixMilli(t.DueAtMs), ID: t.ID})
	case n <= p.live:
		return formatWalkCursor(walkMark, protocol.Cursor{At: time.UnixMilli(t.RunAtMs), ID: t.ID})
	default:
		return formatWalkCursor(endedMark, protocol.Cursor{At: time.UnixMilli(*t.FinishedAt), ID: t.ID})
	}
}

var errPlace = &task.FieldError{Field: "cursor", Problem: "must be one that a page before has given"}

// walk reads a page of the tasks that the filter chooses, in the order of their run times, until the patience is over; 0 has no
// end. The filter's state must be set. A page may have fewer tasks than its limit, or none, and yet a next one.
func (c *Console) walk(ctx context.Context, f Filter, patience time.Duration) (Page, error) {
	if err := f.check(); err != nil {
		return Page{}, err
	}
	began := time.Now()
	after, ended, err := parseWalkCursor(f.After)
	mayHaveEnded := *f.State == task.Done || *f.State == task.Cancelled
	if err == nil && ended && !mayHaveEnded {
		err = errPlace
	}
	if err != nil {
		return Page{}, err
	}
	q := store.WalkQuery{
		State: *f.State, Ended: ended, From: f.RunAfter, To: f.RunBefore, DueAfter: f.DueAfter, DueBefore: f.DueBefore, After: after,
		Kind: f.Kind, Queue: f.Queue, Subject: f.Subject, Exclude: f.Exclude, Scan: walkPage,
	}
	if q.To.IsZero() {
		q.To = maxDue
	}
	if q.From.Before(f.DueAfter) { // no task's next attempt is before its due time; it may be long after it
		q.From = f.DueAfter
	}
	page, limit := Page{Tasks: []Task{}, walked: true}, cmp.Or(f.Limit, DefaultPage)
	for left := walkScanned; ; left -= walkPage {
		q.Limit = limit - len(page.Tasks)
		rows, next, err := c.store.Walk(ctx, q)
		if err != nil {
			return Page{}, err
		}
		for _, row := range rows {
			page.Tasks = append(page.Tasks, TaskOf(row))
		}
		if !q.Ended {
			page.live = len(page.Tasks)
		}
		q.After = next
		switch last := next == (protocol.Cursor{}); {
		case last && (q.Ended || !mayHaveEnded):
			return page, nil
		case last:
			q.Ended, q.After = true, allBehind
		}
		if left <= walkPage || len(page.Tasks) == limit || patience > 0 && time.Since(began) >= patience {
			page.Next = formatWalkCursor(markOf(q.Ended), q.After)
			return page, nil
		}
	}
}

// allBehind is a place before all tasks.
var allBehind = protocol.Cursor{At: time.UnixMilli(0)}

func markOf(ended bool) string {
	if ended {
		return endedMark
	}
	return walkMark
}

func formatWalkCursor(mark string, after protocol.Cursor) string {
	return mark + formatCursor(task.Task{DueAt: after.At, ID: after.ID})
}

// parseWalkCursor returns the place, and whether it is among the tasks that ended a while ago.
func parseWalkCursor(text string) (after protocol.Cursor, ended bool, err error) {
	if text == "" {
		return protocol.Cursor{}, false, nil
	}
	place, ours := strings.CutPrefix(text, walkMark)
	if !ours {
		place, ended = strings.CutPrefix(text, endedMark)
	}
	after, err = parseCursor(place)
	if !ours && !ended || err != nil {
		return protocol.Cursor{}, false, errPlace
	}
	return after, ended, nil
}
