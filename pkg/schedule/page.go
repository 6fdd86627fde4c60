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

	"github.com/duetime/duetime/pkg/task"
)

// defaultPage is how many tasks a page has unless Page says otherwise.
const defaultPage = 100

// pageWindow is how many rows a page of one kind looks at, at most.
const pageWindow = 1000

// Page says which part of a list is wanted. The zero value is the first page.
type Page struct {
	Limit int    // tasks, up to task.MaxPerCall; 0 means 100
	After string // Next of the page before; empty: from the beginning
}

// TaskPage is a part of an owner's list.
type TaskPage struct {
	Entries []task.Entry // by their next try
	Source  string       // FromIndex or FromDB
	Next    string       // what Page.After of the next page must be; empty: this was the last one
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
	p.Limit = cmp.Or(p.Limit, defaultPage)
	if p.Limit < 1 || p.Limit > task.MaxPerCall {
		return p, &task.FieldError{Field: "limit", Problem: fmt.Sprintf("must be from 1 to %d", task.MaxPerCall)}
	}
	if p.After != "" {
		if _, err := restart(p.After); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (c *Client) pageFromIndex(ctx context.Context, owner, kind string, p Page) (TaskPage, error) {
	shard, err := c.shardOf(ctx, owner)
	if err != nil {
		return TaskPage{}, err
	}
	shard := task.Shard(owner, n)
	if c.writer.Away(shard) {
		return TaskPage{}, errAway
	}
	c.writer.WaitForEarlierPuts(ctx)
	ctx, cancel := context.WithTimeout(ctx, c.cfg.PutTimeout)
	defer cancel()
	_, place, _ := strings.Cut(p.After, ".")
	entries, next, generation, err := c.index.OwnerPage(ctx, shard, owner, kind, place, p.Limit)
	if err == nil && generation == "" {
		err = errNotWhole
	}
	if err != nil {
		return TaskPage{}, fmt.Errorf("list owner %s from the index: %w", owner, err)
	}
	page := TaskPage{Entries: readable(entries), Source: FromIndex}
	if next != "" {
		last := task.Cursor{At: p.at()}
		if len(entries) > 0 {
			last.At = entries[len(entries)-1].Score.RunAt()
		}
		page.Next = indexCursor + strconv.FormatInt(last.At.UnixMilli(), 10) + "." + next
	}
	return page, nil
}

// readable leaves out what is none of ours.
func readable(entries []task.Entry) []task.Entry {
	return slices.DeleteFunc(entries, func(e task.Entry) bool { return e.Err != nil })
}

// pageFromDB looks at rows of all kinds and picks the kind: there is no index by it, and to look for one among a million rows
// would take as long as all pages.
func (c *Client) pageFromDB(ctx context.Context, owner, kind string, p Page) (TaskPage, error) {
	after, err := restart(p.After)
	if err != nil {
		return TaskPage{}, err
	}
	look := p.Limit
	if kind != "" {
		look = max(look, pageWindow)
	}
	rows, err := c.store.ListOwnerPage(ctx, owner, after, look)
	if err != nil {
		return TaskPage{}, fmt.Errorf("list tasks of owner %s: %w", owner, err)
	}
	page := TaskPage{Source: FromDB}
	for i, row := range rows {
		if kind == "" || row.Kind == kind {
			page.Entries = append(page.Entries, entryOf(row))
		}
		if len(page.Entries) == p.Limit || i == look-1 {
			page.Next = dbCursor + strconv.FormatInt(row.RunAt.UnixMilli(), 10) + "." + hex.EncodeToString(row.ID[:])
			break
		}
	}
	return page, nil
}

// at is the time of the last task of the page before; the beginning of time for the first page.
func (p Page) at() time.Time {
	after, _ := restart(p.After)
	return after.At
}

// restart reads where the database goes on: behind its own cursor, or before the millisecond of the index's.
func restart(cursor string) (task.Cursor, error) {
	if cursor == "" {
		return task.Cursor{}, nil
	}
	text, place, found := strings.Cut(cursor[1:], ".")
	ms, err := strconv.ParseInt(text, 10, 64)
	after := task.Cursor{At: time.UnixMilli(ms).UTC()}
	switch id, hexErr := hex.DecodeString(place); {
	case err != nil || !found:
	case cursor[:1] == indexCursor:
		return after, nil
	case cursor[:1] == dbCursor && hexErr == nil && len(id) == len(after.ID):
		copy(after.ID[:], id)
		return after, nil
	}
	return task.Cursor{}, &task.FieldError{Field: "cursor", Problem: "must be one that a page before has given"}
}

// CancelOwner cancels all pending tasks of the owner, of one kind or ("") of any, however many there are, and returns how
// many they were. It goes on in transactions of up to task.MaxPerCall tasks each: on an error what was cancelled so far stays
// so, and the call may be repeated. Tasks that an outside handler is running are an error, task.ErrRunning, after all others
// of its transaction were left as they were. What is scheduled for the owner meanwhile may be cancelled as well, or not.
func (c *Client) CancelOwner(ctx context.Context, owner, kind string) (cancelled int, err error) {
	if err := task.CheckOwner(owner); err != nil {
		return 0, err
	}
	var after task.Cursor
	for {
		rows, err := c.store.ListOwnerPage(ctx, owner, after, task.MaxPerCall)
		if err != nil {
			return cancelled, fmt.Errorf("cancel tasks of owner %s: %w", owner, err)
		}
		n, err := c.cancelPage(ctx, rows, kind)
		cancelled += n
		if err != nil {
			return cancelled, fmt.Errorf("cancel tasks of owner %s, after %d: %w", owner, cancelled, err)
		}
		if len(rows) < task.MaxPerCall {
			return cancelled, nil
		}
		last := rows[len(rows)-1]
		after = task.Cursor{At: last.RunAt, ID: last.ID}
	}
}

// cancelPage cancels those of the rows that are still pending.
func (c *Client) cancelPage(ctx context.Context, rows []task.Task, kind string) (n int, err error) {
	var ids []task.ID
	for _, row := range rows {
		if kind == "" || row.Kind == kind {
			ids = append(ids, row.ID)
		}
	}
	if len(ids) == 0 {
		return 0, nil
	}
	err = c.InTx(ctx, func(tx *Tx) error {
		changed, err := tx.cancelPending(ctx, ids)
		n = len(changed)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// cancelPending cancels those of the tasks that are still pending.
func (t *Tx) cancelPending(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	if err := t.ready(ctx); err != nil {
		return nil, err
	}
	locked, err := t.rows.Lock(ctx, t.db, inOrder(ids))
	if err != nil {
		return nil, t.spoil(fmt.Errorf("cancel %s: lock: %w", several(ids), running(err)))
	}
	locked = slices.DeleteFunc(locked, func(row task.Task) bool { return row.State != task.Pending })
	if len(locked) == 0 {
		return nil, nil
	}
	return t.apply(ctx, "cancel", locked, cancel)
}
