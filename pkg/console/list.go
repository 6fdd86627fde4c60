package console

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/task"
)

// Limits of a page.
const (
	MaxPage     = 100_000
	DefaultPage = 100
)

// MaxSelected bounds the tasks that Select returns.
const MaxSelected = 10_000_000

// Filter chooses tasks; zero fields choose all.
type Filter struct {
	Owner, Kind, Queue string
	State              *task.State
	DueAfter           time.Time   // due at this moment or after it
	DueBefore          time.Time   // due before this moment
	After              task.Cursor // only tasks after this place of the list
	Limit              int         // of a page 1 to MaxPage, default DefaultPage; of a selection 1 to MaxSelected, which is the default
}

// Page is a part of a list, which is sorted by due time and id.
type Page struct {
	Tasks []Task `json:"tasks"`
	Next  string `json:"next,omitempty"` // the cursor behind which the next page begins; empty if this page is the last
}

// List reads a page of the tasks that the filter chooses.
func (c *Console) List(ctx context.Context, f Filter) (Page, error) {
	limit := min(cmp.Or(f.Limit, DefaultPage), MaxPage)
	rows, err := c.store.List(ctx, f.rows(limit+1)) // the additional task shows that another page follows
	if err != nil {
		return Page{}, err
	}
	page := Page{Tasks: make([]Task, min(len(rows), limit))}
	for i := range page.Tasks {
		page.Tasks[i] = TaskOf(rows[i])
	}
	if len(rows) > limit {
		page.Next = formatCursor(rows[limit-1])
	}
	return page, nil
}

// Select reads the ids of the tasks that the filter chooses, the earliest due first.
func (c *Console) Select(ctx context.Context, f Filter) ([]task.ID, error) {
	return c.store.ListIDs(ctx, f.rows(min(cmp.Or(f.Limit, MaxSelected), MaxSelected)))
}

func (f Filter) rows(limit int) store.Filter {
	return store.Filter{
		Owner: f.Owner, Kind: f.Kind, Queue: f.Queue, State: f.State,
		DueAfter: f.DueAfter, DueBefore: f.DueBefore, After: f.After, Limit: limit,
	}
}

// A cursor is a place in the order of a list: the due time in Unix ms, and the id. It stays valid when the task changes.
const cursorMark = "_"

func formatCursor(row task.Task) string {
	return strconv.FormatInt(row.DueAt.UnixMilli(), 10) + cursorMark + row.ID.String()
}

// ParseCursor reads a cursor as Page.Next has it.
func ParseCursor(text string) (task.Cursor, error) {
	due, id, _ := strings.Cut(text, cursorMark)
	ms, err := strconv.ParseInt(due, 10, 64)
	if err != nil {
		return task.Cursor{}, fmt.Errorf("%q is no place in a list, such as 1767225600000%s%s", text, cursorMark, task.ID{})
	}
	at, err := task.ParseID(id)
	if err != nil {
		return task.Cursor{}, err
	}
	return task.Cursor{At: time.UnixMilli(ms), ID: at}, nil
}
