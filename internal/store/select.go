package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// selection is the part of a row that a SELECT reads.
type selection struct {
	list    string
	columns []column[task.Task]
	after   func(task.Task) task.Task // applied to each row
}

var (
	wholeRow = selection{names(columns), columns, transition.Sane}
	// entry has the columns of an index entry, and updated_at. All other fields stay zero.
	entry = selection{names(having(indexed)), having(indexed), func(t task.Task) task.Task { return t }}
)

// scanner reads the rows of a SELECT of the selection. In each row, the columns before the selection are scanned into
// first. All rows are scanned into one task, which is then copied: the list of destinations is made once.
func (sel selection) scanner(first ...any) func(*sqlx.Rows) (task.Task, error) {
	t := new(task.Task)
	dest := destinations(first, sel.columns, t)
	return func(r *sqlx.Rows) (task.Task, error) {
		if err := r.Scan(dest...); err != nil {
			return task.Task{}, fmt.Errorf("scan task: %w", err)
		}
		return sel.after(*t), nil
	}
}

// query runs a SELECT of whole rows. In each row, the columns before them are scanned into first.
func (s *Store) query(ctx context.Context, q sqlx.QueryerContext, text string, args []any, first ...any) ([]task.Task, error) {
	return s.read(ctx, q, wholeRow.scanner(first...), text, args)
}

func (s *Store) read(ctx context.Context, q sqlx.QueryerContext, scan func(*sqlx.Rows) (task.Task, error), text string, args []any) (
	[]task.Task, error,
) {
	if _, err := s.cachedLayout(ctx, q); err != nil {
		return nil, err
	}
	r, err := s.handle(q).QueryxContext(ctx, text, args...)
	if err != nil {
		return nil, closed(err)
	}
	defer func() { _ = r.Close() }() // reading to the end closed it, and an earlier error says more
	var tasks []task.Task
	for r.Next() {
		t, err := scan(r)
		if err != nil {
			return nil, err
		}
		if tasks == nil {
			tasks = make([]task.Task, 0, len(args)+1) // for a SELECT by ids: one row each, and the server's state
		}
		tasks = append(tasks, t)
	}
	if err := r.Err(); err != nil {
		return tasks, err
	}
	return tasks, s.setShards(ctx, q, tasks)
}

// setShards sets the shard in which each row is indexed. A row in a shard that the copy of the layout doesn't know may be of
// a newer layout, or be wrong: the layout is read to tell, at most once a second.
func (s *Store) setShards(ctx context.Context, q sqlx.QueryerContext, tasks []task.Task) error {
	c := s.layout.Load()
	layout := c.Layout
	unknown := func(t task.Task) bool { return t.Shard < 0 || t.Shard >= layout.Polled() }
	if time.Since(c.at) > layoutRefresh && slices.ContainsFunc(tasks, unknown) {
		var err error
		if layout, err = s.readLayout(ctx, s.handle(q)); err != nil {
			return err
		}
	}
	for i := range tasks {
		tasks[i].Shard = layout.ShardOf(tasks[i])
	}
	return nil
}

// forEach runs a SELECT of anything but tasks, scans each row into dest, and calls fn after each.
func forEach(ctx context.Context, q sqlx.QueryerContext, query string, args, dest []any, fn func()) error {
	r, err := q.QueryxContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // reading to the end closed it, and an earlier error says more
	for r.Next() {
		if err := r.Scan(dest...); err != nil {
			return err
		}
		fn()
	}
	return r.Err()
}

// queryRows runs a SELECT of whole rows of anything but tasks. In each row, the columns before them are scanned into first.
func queryRows[T any](ctx context.Context, q sqlx.QueryerContext, of []column[T], text string, args []any, first ...any) (all []T, err error) {
	var row T
	err = forEach(ctx, q, text, args, destinations(first, of, &row), func() { all = append(all, row) })
	return all, err
}

// marks returns n placeholders.
func marks(n int) string { return strings.Repeat(",?", n)[1:] }

// anys returns the values as arguments of a statement.
func anys[T any](values []T) []any {
	all := make([]any, len(values))
	for i, v := range values {
		all[i] = v
	}
	return all
}

// sorted returns the ids in ascending order, without duplicates: the order in which rows are locked.
func sorted(ids []task.ID) []task.ID {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, task.ID.Compare)
	return slices.Compact(ids)
}

func idArgs(ids []task.ID) []any {
	args := make([]any, len(ids))
	for i := range ids {
		args[i] = ids[i][:]
	}
	return args
}
