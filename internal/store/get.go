package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// Get reads the rows of these ids in id order without locking. Its result lacks missing rows. A nil q means a connection
// of the pool, to a server that may be written.
func (s *Store) Get(ctx context.Context, q sqlx.QueryerContext, ids []task.ID) ([]task.Task, error) {
	read := func() ([]task.Task, error) { return s.byID(ctx, q, ids, "") }
	if q == nil {
		read = func() ([]task.Task, error) { return s.primaryByID(ctx, wholeRow, ids) }
	}
	tasks, err := read()
	if err != nil {
		return nil, fmt.Errorf("read %d tasks: %w", len(ids), err)
	}
	return tasks, nil
}

// Entries reads only the columns of the index from the rows of these ids, without locking. Its result lacks missing rows.
func (s *Store) Entries(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	tasks, err := s.primaryByID(ctx, entry, ids)
	if err != nil {
		return nil, fmt.Errorf("read %d entries: %w", len(ids), err)
	}
	return tasks, nil
}

// byID reads rows by id; lock is the clause that locks those that may still change.
func (s *Store) byID(ctx context.Context, q sqlx.QueryerContext, ids []task.ID, lock string) ([]task.Task, error) {
	var tasks []task.Task
	for part := range slices.Chunk(sorted(ids), task.MaxPerCall) {
		found, err := s.query(ctx, q, s.dialect.stateThen(wholeRow.list)+liveTasks.fromByID(s.dialect)+
			" WHERE id IN ("+marks(len(part))+") ORDER BY id"+lock, idArgs(part), writable{})
		if err == nil {
			found, err = withEnded(found, part, func(missing []task.ID) ([]task.Task, error) {
				return s.endedByID(ctx, q, missing)
			})
		}
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, found...)
	}
	return tasks, nil
}

// primaryByID is byID without locks, on a connection of the pool to a server that may be written.
func (s *Store) primaryByID(ctx context.Context, of selection, ids []task.ID) ([]task.Task, error) {
	var tasks []task.Task
	for part := range slices.Chunk(sorted(ids), task.MaxPerCall) {
		read := func(t tasksTable, ids []task.ID) ([]task.Task, error) {
			return s.readPrimary(ctx, of, t.fromByID(s.dialect)+" WHERE id IN ("+marks(len(ids))+") ORDER BY id LIMIT "+strconv.Itoa(len(ids)), idArgs(ids))
		}
		found, err := read(liveTasks, part)
		if err == nil {
			found, err = withEnded(found, part, func(missing []task.ID) ([]task.Task, error) { return read(endedTasks, missing) })
		}
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, found...)
	}
	return tasks, nil
}
