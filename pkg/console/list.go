package console

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/task"
)

// Limits of a page.
const (
	MaxPage     = 100_000
	DefaultPage = 100
)

// Filter chooses tasks; zero fields choose all.
type Filter struct {
	Owner, Kind, Queue string
	Subject            string
	State              *task.State
	Labels             map[string]string // labels that the task has, by name, among others: task.Label
	DueAfter           time.Time         // due at this moment or after it, as task.Filter means it
	DueBefore          time.Time         // due before this moment
	Exclude            task.Exclusion    // tasks that are left out
	After              string            // only tasks after this place of the list, as Page.Next names it
	Limit              int               // 1 to MaxPage, default DefaultPage

	// RunAfter and RunBefore are bounds of the run time, likewise: for ListBounded without an owner and a label alone.
	RunAfter, RunBefore time.Time
}

// Page is a part of a list, which is sorted by due time and id.
type Page struct {
	Tasks []Task `json:"tasks"`
	Next  string `json:"next,omitempty"` // Filter.After of the next page; empty if this page is the last

	walked bool // by ListBounded
	live   int  // of the tasks, which come first and are in the order of their run times; the others are in that of their ends
}

// List reads a page of the tasks that the filter chooses, in any state unless it names one, by due time and id. A task that
// moves between two pages may come twice, or not at all. The tasks' labels and history are left out: see Task.
func (c *Console) List(ctx context.Context, f Filter) (Page, error) {
	limit, err := pageLimit(f.Limit)
	if err != nil {
		return Page{}, err
	}
	chosen, err := f.rows(limit + 1) // the additional task shows that another page follows
	if err != nil {
		return Page{}, err
	}
	rows, err := c.store.List(ctx, chosen)
	if err != nil {
		return Page{}, err
	}
	tasks, next := paged(rows, limit, TaskOf, formatCursor)
	return Page{Tasks: tasks, Next: next}, nil
}

// paged converts the rows of a page, and returns the place of its last row if more rows than the limit were read.
func paged[R, T any](rows []R, limit int, convert func(R) T, place func(R) string) (page []T, next string) {
	page = make([]T, min(len(rows), limit))
	for i := range page {
		page[i] = convert(rows[i])
	}
	if len(rows) > limit {
		next = place(rows[limit-1])
	}
	return page, next
}

func pageLimit(limit int) (int, error) { return checkLimit(cmp.Or(limit, DefaultPage), MaxPage) }

func checkLimit(limit, highest int) (int, error) {
	if limit < 1 || limit > highest {
		return 0, &task.FieldError{Field: "limit", Problem: fmt.Sprintf("must be 1 to %d", highest)}
	}
	return limit, nil
}

func (f Filter) check() error {
	return cmp.Or(
		protocol.CheckBlanks("owner", f.Owner), protocol.CheckBlanks("kind", f.Kind),
		protocol.CheckBlanks("queue", f.Queue), protocol.CheckBlanks("subject", f.Subject), f.Exclude.Check(),
	)
}

func (f Filter) rows(limit int) (store.Filter, error) {
	out := store.Filter{
		Owner: f.Owner, Kind: f.Kind, Queue: f.Queue, Subject: f.Subject, State: f.State,
		DueAfter: f.DueAfter, DueBefore: f.DueBefore, Limit: limit, Labels: f.Labels, Exclude: f.Exclude,
	}
	if !f.RunAfter.IsZero() || !f.RunBefore.IsZero() {
		return out, &task.FieldError{Field: "run time", Problem: "must not be bounded in this list"}
	}
	err := cmp.Or(f.check(), protocol.CheckLabels(f.Labels))
	if err != nil || f.After == "" {
		return out, err
	}
	out.After, err = parseCursor(f.After)
	return out, err
}

// A cursor is a place in the order of a list: the due time in Unix ms, and the id. It stays valid when the task changes.
const cursorMark = "_"

func formatCursor(row task.Task) string {
	return strconv.FormatInt(row.DueAt.UnixMilli(), 10) + cursorMark + row.ID.String()
}

// CheckCursor returns an error unless the text is a place in a list, as Page.Next names it.
func CheckCursor(text string) error {
	_, err := parseCursor(text)
	return err
}

func parseCursor(text string) (protocol.Cursor, error) {
	due, id, _ := strings.Cut(text, cursorMark)
	ms, err := strconv.ParseInt(due, 10, 64)
	if err != nil {
		return protocol.Cursor{}, fmt.Errorf("%q is no place in a list, such as 1767225600000%s%s", text, cursorMark, task.ID{})
	}
	at, err := task.ParseID(id)
	if err != nil {
		return protocol.Cursor{}, err
	}
	return protocol.Cursor{At: time.UnixMilli(ms), ID: at}, nil
}
