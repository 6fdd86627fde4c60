package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// maxInsertBytes bounds the payloads of one INSERT: escaped they may take twice that, and a server accepts 16 MiB.
const maxInsertBytes = 4 << 20

// A new row has the defaults of all other columns: the server parses a shorter statement faster.
var (
	newRow        = having(inserted, "order_key")
	newOrderedRow = having(inserted)
)

func insertInto(row []column[task.Task], n int) string {
	return "INSERT INTO duetime_tasks (" + names(row) + ") VALUES " + strings.Repeat(",("+marks(len(row))+")", n)[1:]
}

// Insert writes the rows of new tasks, pending and of version 1, each into its owner's shard. For each task it returns,
// locked, the row that exists afterwards: the task's own, or an earlier one with the same id or (owner, kind, dedup_key).
// An earlier task of the same call counts too. Call it within a transaction. It returns ErrConflict if somebody else takes one of the
// ids or keys in this moment; the caller must roll back then.
func (s *Store) Insert(ctx context.Context, q sqlx.ExtContext, tasks []task.Task) ([]task.Task, error) {
	layout, err := s.placingLayout(ctx, q)
	if err != nil {
		return nil, err
	}
	tasks = slices.Clone(tasks)
	for i := range tasks {
		tasks[i].Shard = layout.Place(tasks[i].Owner)
	}
	keyed := slices.ContainsFunc(tasks, func(t task.Task) bool { return t.DedupKey != "" })
	stands, missing := rowSet{}, tasks
	if keyed {
		if stands, err = s.lockExisting(ctx, q, tasks); err != nil {
			return nil, err
		}
		missing = stands.addMissing(tasks)
	}
	allNew := true
	for part := range insertParts(missing) {
		partNew, err := s.insert(ctx, q, part, keyed)
		if err != nil {
			return nil, fmt.Errorf("insert %d tasks, the first %s of %s: %w", len(tasks), tasks[0].ID, tasks[0].Owner, err)
		}
		allNew = allNew && partNew
	}
	switch {
	case keyed:
		return stands.of(tasks), nil
	case allNew:
		return tasks, nil
	}
	return s.existing(ctx, q, tasks)
}

// InsertUnlessEnded is Insert of tasks of which some may have been inserted before, have ended and have left duetime_tasks: those are found by ids
// that are not fresh, and answered as they are. One that leaves at this very moment is inserted once more: no worker runs it
// (protocol.IDEnded).
func (s *Store) InsertUnlessEnded(ctx context.Context, q sqlx.ExtContext, tasks []task.Task, now time.Time) ([]task.Task, error) {
	old := slices.DeleteFunc(protocol.IDs(tasks), func(id task.ID) bool { return protocol.IsFresh(id, now) })
	if len(old) == 0 {
		return s.Insert(ctx, q, tasks)
	}
	left, err := s.endedByID(ctx, q, sorted(old))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read which of %d tasks have ended: %w", len(old), err)
	case len(left) == 0:
		return s.Insert(ctx, q, tasks)
	}
	var stands rowSet
	stands.add(left)
	missing := slices.DeleteFunc(slices.Clone(tasks), func(t task.Task) bool { _, found := stands.byID[t.ID]; return found })
	if len(missing) > 0 {
		rows, err := s.Insert(ctx, q, missing)
		if err != nil {
			return nil, err
		}
		stands.add(rows)
	}
	return stands.of(tasks), nil
}

// insertParts cuts the tasks into statements, in the order in which rows are locked: tasks without a key by id, then
// tasks with a key by key. Tasks with the same key keep their order.
func insertParts(tasks []task.Task) func(yield func([]task.Task) bool) {
	compare := func(a, b task.Task) int {
		if a.DedupKey == "" && b.DedupKey == "" {
			return a.ID.Compare(b.ID)
		}
		return cmp.Or(cmp.Compare(a.DedupKey, b.DedupKey), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Kind, b.Kind))
	}
	if !slices.IsSortedFunc(tasks, compare) { // new ids are usually sorted
		tasks = slices.Clone(tasks)
		slices.SortStableFunc(tasks, compare)
	}
	return func(yield func([]task.Task) bool) {
		for len(tasks) > 0 {
			n, size := 0, 0
			for n < len(tasks) && n < task.MaxPerCall && size < maxInsertBytes {
				size += len(tasks[n].Payload)
				n++
			}
			if !yield(tasks[:n]) {
				return
			}
			tasks = tasks[n:]
		}
	}
}

// insert runs one statement and reports whether all its rows are new. Of tasks with keys, none of which was taken before, all are new,
// or it answers ErrConflict. It must not wait for the row of a task that has the key: see lockExisting.
func (s *Store) insert(ctx context.Context, q sqlx.ExtContext, tasks []task.Task, keyed bool) (bool, error) {
	row, taken := newRow, s.dialect.ignoreTaken("id")
	if slices.ContainsFunc(tasks, isOrdered) {
		row = newOrderedRow
	}
	args := make([]any, 0, len(tasks)*len(row))
	for i := range tasks {
		args = appendValues(args, row, &tasks[i])
	}
	if keyed {
		taken = ""
	}
	r, err := q.ExecContext(ctx, insertInto(row, len(tasks))+taken, args...)
	switch {
	case keyed && classOf(err) == Duplicate:
		return false, &conflictError{0, int64(len(tasks))}
	case err != nil:
		return false, err
	}
	if !keyed {
		if allNew, err := s.allNew(r, len(tasks)); err != nil || !allNew {
			return false, err
		}
	}
	return true, s.insertOrders(ctx, q, tasks)
}

func isEnded(t task.Task) bool { return t.State != task.Pending }

func isOrdered(t task.Task) bool { return t.OrderKey != "" }

// allNew reports whether an INSERT of n rows that ends with ignoreTaken found no existing row.
func (s *Store) allNew(r sql.Result, n int) (bool, error) {
	got, err := r.RowsAffected()
	if err != nil || got != int64(n) || s.dialect == SQLite {
		return got == int64(n), err
	}
	taken, err := r.LastInsertId()
	return taken == 0, err
}

// existing finds the rows that have the ids of tasks without keys. The INSERT before it has locked them, so none can vanish.
func (s *Store) existing(ctx context.Context, q sqlx.ExtContext, tasks []task.Task) ([]task.Task, error) {
	found, err := s.byID(ctx, q, protocol.IDs(tasks), s.dialect.ForUpdate())
	if err != nil {
		return nil, err
	}
	if err := s.insertOrders(ctx, q, slices.DeleteFunc(slices.Clone(found), isEnded)); err != nil {
		return nil, err
	}
	stands := rowSet{}
	stands.add(found)
	if left := stands.addMissing(tasks); len(left) > 0 {
		return nil, fmt.Errorf("find the row that took the id of %s: %w", left[0].ID, &conflictError{0, 1})
	}
	return stands.of(tasks), nil
}
