package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// Lock reads the rows of these ids in id order and holds each until the transaction ends, waiting for other holders up
// to the session's lock wait. Missing ids are absent from the answer.
func (s *Store) Lock(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, error) {
	tasks, err := s.byID(ctx, q, ids, s.dialect.ForUpdate())
	if err == nil && len(tasks) < len(ids) {
		err = s.sure(ctx, q)
	}
	if err != nil {
		return nil, fmt.Errorf("lock %d tasks: %w", len(ids), err)
	}
	return tasks, nil
}

// LockFree is Lock without waiting: rows that another transaction holds are absent from the answer, like missing ones,
// and rows in any state are in it. The time is the moment of that very statement; when nothing came back, that of a
// statement right after it.
func (s *Store) LockFree(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, time.Time, error) {
	// The state is not asked for here: with a second condition the optimizer may read another index, and SKIP LOCKED
	// locks every row that it examines.
	var ms int64
	var tasks []task.Task
	for part := range slices.Chunk(sorted(ids), task.MaxPerCall) {
		found, err := s.query(ctx, q, "SELECT "+s.dialect.state()+", "+s.dialect.now()+", "+wholeRow.list+" FROM duetime_tasks"+s.dialect.force("PRIMARY")+
			" WHERE id IN ("+marks(len(part))+") ORDER BY id"+s.dialect.skipLocked(), idArgs(part), writable{}, &ms)
		if err != nil {
			return nil, time.Time{}, fmt.Errorf("lock %d free tasks: %w", len(ids), err)
		}
		tasks = append(tasks, found...)
	}
	if len(tasks) > 0 {
		return tasks, fromMs(ms), nil
	}
	now, err := s.Now(ctx, q)
	return nil, now, err
}

// LockOwner is Lock for an owner's pending rows of a kind, or of all kinds if kind is empty; at most task.MaxPerCall+1
// of them, so that the caller can tell too many. The time is the moment just before the locks were asked for; zero when
// there is no such row.
func (s *Store) LockOwner(ctx context.Context, q sqlx.ExtContext, owner, kind string) ([]task.Task, time.Time, error) {
	// Found without locks, then locked by id, one after the other: locking through the owner's index would take locks in
	// another order than everyone else.
	where, args := s.pendingOf(owner, kind)
	var ms int64
	tasks, err := s.query(ctx, q, "SELECT "+s.dialect.state()+", "+s.dialect.now()+", "+wholeRow.list+" FROM (SELECT id AS found"+where+" ORDER BY id LIMIT ?) AS owned"+
		s.dialect.inTurn()+"duetime_tasks"+s.dialect.force("PRIMARY")+" ON id = found"+s.dialect.ForUpdate(), append(args, task.MaxPerCall+1), writable{}, &ms)
	if err == nil && len(tasks) == 0 {
		return nil, time.Time{}, s.sure(ctx, q)
	}
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("lock tasks of owner %s: %w", owner, err)
	}
	return slices.DeleteFunc(tasks, func(t task.Task) bool { return t.State != task.Pending }), fromMs(ms), nil
}

// Get reads the rows of these ids in id order without locking. Missing ids are absent from the answer. A nil q takes a
// connection of the pool, to a server that may be written.
func (s *Store) Get(ctx context.Context, q sqlx.QueryerContext, ids []task.ID) ([]task.Task, error) {
	read := func() ([]task.Task, error) { return s.byID(ctx, q, ids, "") }
	if q == nil {
		read = func() ([]task.Task, error) { return s.truthByID(ctx, wholeRow, ids) }
	}
	tasks, err := read()
	if err != nil {
		return nil, fmt.Errorf("read %d tasks: %w", len(ids), err)
	}
	return tasks, nil
}

func (s *Store) byID(ctx context.Context, q sqlx.QueryerContext, ids []task.ID, lock string) ([]task.Task, error) {
	var tasks []task.Task
	for part := range slices.Chunk(sorted(ids), task.MaxPerCall) {
		found, err := s.query(ctx, q, "SELECT "+s.dialect.state()+", "+wholeRow.list+" FROM duetime_tasks"+s.dialect.force("PRIMARY")+
			" WHERE id IN ("+marks(len(part))+") ORDER BY id"+lock, idArgs(part), writable{})
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, found...)
	}
	return tasks, nil
}

// truthByID is byID without locks, on a connection of the pool, and sure of what is missing too.
func (s *Store) truthByID(ctx context.Context, of selection, ids []task.ID) ([]task.Task, error) {
	var tasks []task.Task
	for part := range slices.Chunk(sorted(ids), task.MaxPerCall) {
		found, err := s.readTruth(ctx, of, " FROM duetime_tasks"+s.dialect.force("PRIMARY")+
			" WHERE id IN ("+marks(len(part))+") ORDER BY id LIMIT "+strconv.Itoa(len(part)), idArgs(part))
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, found...)
	}
	return tasks, nil
}

// ListOwner reads all pending rows of an owner, of a kind or, if kind is empty, of any, by run_at. A nil q takes a
// connection of the pool.
func (s *Store) ListOwner(ctx context.Context, q sqlx.QueryerContext, owner, kind string) ([]task.Task, error) {
	where, args := s.pendingOf(owner, kind)
	where += " ORDER BY run_at, id LIMIT 9223372036854775807" // without a limit a part of a UNION has no order
	read := func() ([]task.Task, error) { return s.query(ctx, q, "SELECT "+wholeRow.list+where, args) }
	if q == nil {
		read = func() ([]task.Task, error) { return s.readTruth(ctx, wholeRow, where, args) }
	}
	tasks, err := read()
	if err != nil {
		return nil, fmt.Errorf("list tasks of owner %s: %w", owner, err)
	}
	return tasks, nil
}

// pendingOf is the end of a SELECT of an owner's pending rows, of a kind or, if kind is empty, of any.
func (s *Store) pendingOf(owner, kind string) (string, []any) {
	where := " FROM duetime_tasks" + s.dialect.force("duetime_tasks_owner") + " WHERE owner = ? AND state = 0"
	if kind == "" {
		return where, []any{owner}
	}
	return where + " AND kind = ?", []any{owner, kind}
}

func idsOf(tasks []task.Task) []task.ID {
	ids := make([]task.ID, len(tasks))
	for i, t := range tasks {
		ids[i] = t.ID
	}
	return ids
}
