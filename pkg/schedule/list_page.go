package schedule

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

const (
	defaultPageTasks = 100  // of a page whose Page.Limit is 0
	maxRowsScanned   = 1000 // for a page of one kind
)

// ownerPages is what pages need of the store.
type ownerPages interface {
	// ListOwnerPage reads a page of the owner's pending rows by (run_at, id), after the cursor; fewer than limit are the last.
	ListOwnerPage(ctx context.Context, owner string, after protocol.Cursor, limit int) ([]task.Task, error)
	// ListOwnerDue reads the first of the owner's pending rows, of a kind or ("") of any, that are due at the moment and don't
	// wait for a retry.
	ListOwnerDue(ctx context.Context, owner, kind string, at time.Time, limit int) ([]task.Task, error)
}

// Page says which part of a list is wanted. The zero value is the first page.
type Page struct {
	Limit int    // tasks, up to task.MaxPerCall; 0 means 100
	After string // Next of the page before; empty: from the beginning
}

// TaskPage is a part of an owner's list.
type TaskPage struct {
	Tasks  []task.Task // by their next try
	Source string      // FromIndex or FromDB
	Next   string      // what Page.After of the next page must be; empty: this was the last one
}

// The first byte of a cursor says whose it is: the two lists have orders of their own within a millisecond.
const (
	indexCursor = "i"
	dbCursor    = "d"
)

// TasksPage lists a page of the owner's pending tasks, of one kind or ("") of any, by their next try. It takes the same time
// however many tasks the owner has. It reads what Tasks reads: the index, or the database while the index is away or has lost
// its memory.
//
// To list all, call it until Next is empty. A page of one kind may have fewer tasks than the limit, or none, before the end.
// A task that moves meanwhile may come twice or not at all, as in any list by pages; where the source changes in between,
// tasks of one millisecond may come twice.
//
// A cursor that is none of ours, and a limit out of its bounds, are a FieldError.
func (c *Client) TasksPage(ctx context.Context, owner, kind string, p Page) (TaskPage, error) {
	p, err := p.checked(owner)
	if err != nil {
		return TaskPage{}, err
	}
	if !strings.HasPrefix(p.After, dbCursor) {
		if page, err := c.pageFromIndex(ctx, owner, kind, p); err == nil {
			return page, nil
		}
	}
	return c.pageFromDB(ctx, owner, kind, p)
}

// TasksPageFromDB is TasksPage by the database alone, as committed.
func (c *Client) TasksPageFromDB(ctx context.Context, owner, kind string, p Page) (TaskPage, error) {
	p, err := p.checked(owner)
	if err != nil {
		return TaskPage{}, err
	}
	return c.pageFromDB(ctx, owner, kind, p)
}

func (p Page) checked(owner string) (Page, error) {
	if err := task.CheckOwner(owner); err != nil {
		return p, err
	}
	p.Limit = cmp.Or(p.Limit, defaultPageTasks)
	if p.Limit < 1 || p.Limit > task.MaxPerCall {
		return p, &task.FieldError{Field: "limit", Problem: fmt.Sprintf("must be from 1 to %d", task.MaxPerCall)}
	}
	if p.After != "" {
		if _, err := dbCursorOf(p.After); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (c *Client) pageFromIndex(ctx context.Context, owner, kind string, p Page) (TaskPage, error) {
	shard, err := c.readableShard(ctx, owner)
	if err != nil {
		return TaskPage{}, err
	}
	_, place, _ := strings.Cut(p.After, ".")
	entries, next, _, err := c.readPage(ctx, shard, owner, kind, place, p.Limit)
	if err != nil {
		return TaskPage{}, err
	}
	page := TaskPage{Source: FromIndex}
	if next != "" {
		last := protocol.Cursor{At: p.at()}
		if len(entries) > 0 {
			last.At = entries[len(entries)-1].Score.RunAt()
		}
		page.Next = indexCursor + strconv.FormatInt(last.At.UnixMilli(), 10) + "." + next
	}
	page.Tasks, err = c.pendingOf(ctx, ours(entries)) // overwrites the last ones
	return page, err
}

// ours leaves out entries that are none of ours.
func ours(entries []protocol.Entry) []protocol.Entry {
	return slices.DeleteFunc(entries, func(e protocol.Entry) bool { return e.Err != nil })
}

// pageFromDB looks at rows of all kinds and picks the kind: there is no index by it, and to look for one among a million rows
// would take as long as all pages.
func (c *Client) pageFromDB(ctx context.Context, owner, kind string, p Page) (TaskPage, error) {
	after, err := dbCursorOf(p.After)
	if err != nil {
		return TaskPage{}, err
	}
	scan := p.Limit
	if kind != "" {
		scan = max(scan, maxRowsScanned)
	}
	rows, err := c.store.ListOwnerPage(ctx, owner, after, scan)
	if err != nil {
		return TaskPage{}, fmt.Errorf("list tasks of owner %s: %w", owner, err)
	}
	page := TaskPage{Source: FromDB}
	var found []protocol.Entry
	for i, row := range rows {
		if kind == "" || row.Kind == kind {
			found = append(found, protocol.Entry{ID: row.ID, Owner: owner})
		}
		if len(found) == p.Limit || i == scan-1 {
			page.Next = dbCursor + strconv.FormatInt(row.RunAt.UnixMilli(), 10) + "." + hex.EncodeToString(row.ID[:])
			break
		}
	}
	page.Tasks, err = c.pendingOf(ctx, found)
	return page, err
}

// at is the time of the last task of the page before; the beginning of time for the first page.
func (p Page) at() time.Time {
	after, _ := dbCursorOf(p.After)
	return after.At
}

// dbCursorOf reads where the database goes on: behind its own cursor, or before the millisecond of the index's.
func dbCursorOf(cursor string) (protocol.Cursor, error) {
	if cursor == "" {
		return protocol.Cursor{}, nil
	}
	text, place, found := strings.Cut(cursor[1:], ".")
	ms, err := strconv.ParseInt(text, 10, 64)
	after := protocol.Cursor{At: time.UnixMilli(ms).UTC()}
	switch id, hexErr := hex.DecodeString(place); {
	case err != nil || !found:
	case cursor[:1] == indexCursor:
		return after, nil
	case cursor[:1] == dbCursor && hexErr == nil && len(id) == len(after.ID):
		copy(after.ID[:], id)
		return after, nil
	}
	return protocol.Cursor{}, &task.FieldError{Field: "cursor", Problem: "must be one that a page before has given"}
}
