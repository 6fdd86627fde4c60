package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// ListOwner reads all pending rows of an owner, of a kind or, if kind is empty, of any, by run_at. A nil q means a
// connection of the pool.
func (s *Store) ListOwner(ctx context.Context, q sqlx.QueryerContext, owner, kind string) ([]task.Task, error) {
	where, args := s.pendingOf(owner, kind)
	where += " ORDER BY run_at, id LIMIT 9223372036854775807" // a part of a UNION without a limit has no order
	read := func() ([]task.Task, error) { return s.query(ctx, q, "SELECT "+wholeRow.list+where, args) }
	if q == nil {
		read = func() ([]task.Task, error) { return s.readPrimary(ctx, wholeRow, where, args) }
	}
	tasks, err := read()
	if err != nil {
		return nil, fmt.Errorf("list tasks of owner %s: %w", owner, err)
	}
	return tasks, nil
}

// pendingOf returns the end of a SELECT of an owner's pending rows, of a kind or, if kind is empty, of any.
func (s *Store) pendingOf(owner, kind string) (string, []any) {
	where := " FROM duetime_tasks" + s.dialect.Force("duetime_tasks_owner") + " WHERE owner = ? AND state = 0"
	if kind == "" {
		return where, []any{owner}
	}
	return where + " AND kind = ?", []any{owner, kind}
}

// byOwner reads the pending rows of one owner, who is its first argument.
var byOwner = indexOrder{index: "duetime_tasks_owner", column: "run_at", where: "owner = ? AND state = 0 AND "}

// ListOwnerPage reads a page of an owner's pending rows by (run_at, id), after the cursor; a zero cursor means from the
// first row. It reads only the columns of the index. Fewer than limit rows mean that this was the last page.
func (s *Store) ListOwnerPage(ctx context.Context, owner string, after protocol.Cursor, limit int) ([]task.Task, error) {
	text, args := byOwner.sql(s.dialect, window{time.Time{}, time.UnixMilli(1 << 60), after, limit})
	tasks, err := s.readPrimary(ctx, entry, text, append([]any{owner}, args...))
	if err != nil {
		return nil, fmt.Errorf("list tasks of owner %s: %w", owner, err)
	}
	return tasks, nil
}

// ListOwnerDue reads the first limit, by (run_at, id), of an owner's pending rows that are due at the moment, of a kind or, if
// kind is empty, of any: those whose run time is the moment or before it, and those that were put off without an attempt. For
// an owner with nothing due, and nothing that will be so within maxPutOff, it is one seek.
func (s *Store) ListOwnerDue(ctx context.Context, owner, kind string, at time.Time, limit int) ([]task.Task, error) {
	order, of := byOwner, []any{owner}
	if kind != "" {
		order.where += "kind = ? AND "
		of = append(of, kind)
	}
	ms := at.UnixMilli()
	text, args := order.selectSQL(s.dialect, window{to: at.Add(maxPutOff), limit: limit}, protocol.Cursor{},
		"state = 0 AND (run_at <= ? OR due_at <= ? AND "+untried+")", append([]any{ms, ms}, untriedMarks...), limit)
	tasks, err := s.readPrimary(ctx, entry, text, append(of, args...))
	if err != nil {
		return nil, fmt.Errorf("list due tasks of owner %s: %w", owner, err)
	}
	return tasks, nil
}
