package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// Lock reads the rows of these ids in id order and locks each until the transaction ends. It waits for other holders up
// to the session's lock wait. Its result lacks missing rows.
func (s *Store) Lock(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, error) {
	ids = sorted(ids)
	tasks, err := s.byID(ctx, q, ids, s.dialect.ForUpdate())
	if err == nil && len(tasks) < len(ids) {
		err = s.checkPrimary(ctx, q)
	}
	if err != nil {
		return nil, fmt.Errorf("lock %d tasks: %w", len(ids), err)
	}
	return tasks, nil
}

// LockFree is Lock without waiting. Its result lacks rows that another transaction holds, as well as missing rows; it has
// rows in any state, also those that have left duetime_tasks, which it needn't lock. The time is the moment of the same statement, or of a statement right after it if no row was found.
func (s *Store) LockFree(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, time.Time, error) {
	var ms int64
	return s.lockFree(ctx, q, ids, "", wholeRow.scanner(writable{}, &ms), &ms)
}

// LockToRun is LockFree, and says which of the rows must not run. It reads what is committed of blocks and of ended tasks, and locks none.
func (s *Store) LockToRun(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, map[task.ID]protocol.Bar, time.Time, error) {
	var ms int64
	var bar protocol.Bar
	bars := map[task.ID]protocol.Bar{}
	scanRow := wholeRow.scanner(writable{}, &ms, whole[protocol.Bar]{&bar})
	scan := func(r *sqlx.Rows) (task.Task, error) {
		t, err := scanRow(r)
		if bar != protocol.NoBar && err == nil {
			bars[t.ID] = bar
		}
		return t, err
	}
	rows, now, err := s.lockFree(ctx, q, ids, barOf+", ", scan, &ms)
	return rows, bars, now, err
}

// barOf is the protocol.Bar of a row.
var barOf = fmt.Sprintf("CASE WHEN EXISTS (SELECT 1 FROM duetime_blocks AS b WHERE b.owner = duetime_tasks.owner) THEN %d"+
	" WHEN EXISTS (SELECT 1 FROM duetime_ended AS e WHERE e.id = duetime_tasks.id) THEN %d ELSE %d END",
	protocol.OwnerBlocked, protocol.IDEnded, protocol.NoBar)

func (s *Store) lockFree(ctx context.Context, q sqlx.ExtContext, ids []task.ID, further string, scan func(*sqlx.Rows) (task.Task, error),
	ms *int64,
) ([]task.Task, time.Time, error) {
	// The statement has no condition on the state: with a second condition the optimizer may read another index, and SKIP
	// LOCKED locks every row that it examines.
	text := s.dialect.stateThen(s.dialect.now() + ", " + further + wholeRow.list)
	var tasks []task.Task
	for part := range slices.Chunk(sorted(ids), task.MaxPerCall) {
		found, err := s.read(ctx, q, scan, text+liveTasks.fromByID(s.dialect)+" WHERE id IN ("+marks(len(part))+") ORDER BY id"+
			s.dialect.skipLocked(), idArgs(part))
		if err == nil {
			found, err = withEnded(found, part, func(missing []task.ID) ([]task.Task, error) {
				return s.endedByID(ctx, q, missing)
			})
		}
		if err != nil {
			return nil, time.Time{}, fmt.Errorf("lock %d free tasks: %w", len(ids), err)
		}
		tasks = append(tasks, found...)
	}
	if *ms > 0 { // a row was locked
		return tasks, fromMs(*ms), nil
	}
	now, err := s.Now(ctx, q)
	return tasks, now, err
}

// LockOwner is Lock for an owner's pending rows of a kind, or of all kinds if kind is empty. It returns at most
// task.MaxPerCall+1 rows, so that the caller can tell too many. The time is the moment just before the locks; zero if
// there is no such row.
func (s *Store) LockOwner(ctx context.Context, q sqlx.ExtContext, owner, kind string) ([]task.Task, time.Time, error) {
	// The rows are found without locks, then locked by id, one after the other: locking through the owner's index would take
	// locks in another order than every other statement. They are the first of the index, so that each page of a large owner reads few.
	where, args := s.pendingOf(owner, kind)
	text := s.dialect.stateThen(s.dialect.now()+", version <> found_version, "+wholeRow.list) +
		" FROM (SELECT * FROM (SELECT id AS found, version AS found_version" + where + " LIMIT ?) AS page ORDER BY found LIMIT ?) AS owned" +
		s.dialect.LeftFirst() + "duetime_tasks" + s.dialect.Force("PRIMARY") + " ON id = found" + s.dialect.ForUpdate()
	for {
		var ms int64
		var changed anyTrue
		tasks, err := s.query(ctx, q, text, append(args, task.MaxPerCall+1, task.MaxPerCall+1), writable{}, &ms, &changed)
		if err == nil && len(tasks) == 0 {
			return nil, time.Time{}, s.checkPrimary(ctx, q)
		}
		if err != nil {
			return nil, time.Time{}, fmt.Errorf("lock tasks of owner %s: %w", owner, err)
		}
		// A task that has ended or moved while it was waited for may have follow-ups, which are found now.
		if !changed {
			return tasks, fromMs(ms), nil
		}
	}
}
