package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// purgeLap is how often a round of purges begins at the oldest row: for the rows of ticks that have passed meanwhile.
const purgeLap = 24 * time.Hour

// purgeOverlap is how far before the newest purgeable row each round of purges begins at the latest: a long transaction
// commits rows late, with an earlier time.
const purgeOverlap = 10 * time.Minute

// purgeScan is how many entries of the index a call of Purge examines at most. It looks up the row of each entry: at 250 rows a
// second, from a cold disk, this many take as long as the default read timeout of a connection.
const purgeScan = 5000

// Purge deletes up to limit finished rows of duetime_tasks that have not changed since before, oldest first. It returns their number, and
// whether the round of calls goes on: a call examines a bounded number of rows, and may find none though finished ones come after.
// The row of a recurrence's tick stays until the tick is before that moment too: its key keeps the tick of a task that was
// cancelled, or moved ahead and done, from being made once more. A row that has stayed for its tick is deleted within purgeLap after.
func (s *Store) Purge(ctx context.Context, before time.Time, limit int) (n int, more bool, err error) {
	return s.purge.step(ctx, s, before, purgeOverlap, limit, purgeSQL, func(found []task.ID) error {
		if err := s.deleteFinished(ctx, liveTasks, found, before); err != nil {
			return err
		}
		return s.dropLeftOrders(ctx, found)
	})
}

// round walks through the rows of duetime_tasks that changed before a moment, oldest first, and goes on from call to call.
type round struct {
	mu     sync.Mutex
	at     protocol.Cursor // where the last call stopped
	going  bool            // a round of calls is under way
	end    protocol.Cursor // of the page that is examined; zero: not known, or the last page
	lapped time.Time       // the limit of the last round that began at the oldest row
	scan   int             // entries of the index in a page; 0: purgeScan
}

// step does something to up to limit rows of those that find finds up to a page's end. A round begins the overlap before the limit of the
// last one at the latest.
func (r *round) step(ctx context.Context, s *Store, before time.Time, overlap time.Duration, limit int,
	find func(d Dialect, before time.Time, after, end protocol.Cursor, limit int) (string, []any), act func(found []task.ID) error,
) (n int, more bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// The rows of tasks that are due in months stay at the old end of the index, and each call would read them. So a call
	// begins where the last one stopped: rows before that place are pending, and move after it when they end, or wait for their
	// ticks until the next lap.
	// The overlap is read once in a round of calls, up to the one that ends the last page: it may have millions of pending rows,
	// and entries of deleted ones.
	after, newLap := r.at, !r.going && before.Sub(r.lapped) >= purgeLap
	switch from := before.Add(-overlap); {
	case newLap:
		after = protocol.Cursor{}
	case !r.going && after.At.After(from):
		after = protocol.Cursor{At: from}
	}
	end := r.end
	if end == (protocol.Cursor{}) {
		end, err = s.pageEnd(ctx, byChange, window{to: before, after: after, limit: cmp.Or(r.scan, purgeScan)})
		if err != nil {
			return 0, false, fmt.Errorf("find how far to look for finished tasks: %w", err)
		}
	}
	text, args := find(s.dialect, before, after, end, limit)
	found, last, err := s.readCursors(ctx, text, args)
	if err != nil {
		return 0, false, fmt.Errorf("find finished tasks: %w", err)
	}
	if len(found) > 0 {
		if err := act(found); err != nil {
			return 0, false, err
		}
	}
	r.going = true
	switch {
	case len(found) == limit && last != end:
		r.at, r.end = last, end
	case end != (protocol.Cursor{}):
		r.at, r.end = end, protocol.Cursor{}
	default:
		r.at, r.going = protocol.Cursor{At: before}, false
	}
	if newLap {
		r.lapped = before
	}
	return len(found), r.going, nil
}

// purgeSQL finds rows to delete, up to a page's end; zero: up to the last row. The milliseconds of ticks are compared as texts, of 13
// digits from 2001 to 2286: a key of another program that begins with r may have none.
func purgeSQL(d Dialect, before time.Time, after, end protocol.Cursor, limit int) (string, []any) {
	text, args := endedByChange.sqlUntil(d, window{time.Time{}, before, after, limit}, end)
	return "SELECT id, updated_at" + text, append([]any{strconv.FormatInt(before.UnixMilli(), 10)}, args...)
}

// deleteFinished deletes rows with their labels. The rows are not locked: another purge may have deleted some, and an
// operator may have retried a dead task, which keeps its labels.
func (s *Store) deleteFinished(ctx context.Context, of tasksTable, ids []task.ID, before time.Time) error {
	labelled, err := s.labelled(ctx, ids)
	if err != nil {
		return err
	}
	if len(labelled) > 0 {
		if err := s.deleteLabelled(ctx, of, labelled, before); err != nil {
			return err
		}
		ids = slices.DeleteFunc(slices.Clone(ids), func(id task.ID) bool { return slices.Contains(labelled, id) })
	}
	if len(ids) == 0 {
		return nil
	}
	return s.deleteRows(ctx, s.db, of, ids, before)
}

func (s *Store) deleteRows(ctx context.Context, q sqlx.ExtContext, of tasksTable, ids []task.ID, before time.Time) error {
	_, err := q.ExecContext(ctx, s.dialect.deletePinnedTo(of.name, of.byID)+" WHERE id IN ("+marks(len(ids))+") AND "+of.isOver,
		append(idArgs(ids), before.UnixMilli())...)
	if err != nil {
		return fmt.Errorf("delete %d finished tasks: %w", len(ids), err)
	}
	return nil
}

// purgeOver deletes up to limit rows that are in one of the states and have not changed since before, and returns their number.
func (s *Store) purgeOver(ctx context.Context, table string, before time.Time, limit int, states ...any) (int, error) {
	var ids []task.ID
	var id task.ID
	err := forEach(ctx, s.db, "SELECT id FROM "+table+" WHERE state IN ("+marks(len(states))+") AND updated_at < ? LIMIT ?",
		append(slices.Clone(states), before.UnixMilli(), limit), []any{idBytes{&id}}, func() { ids = append(ids, id) })
	if err != nil {
		return 0, fmt.Errorf("find old rows of %s: %w", table, err)
	}
	if len(ids) == 0 {
		return 0, nil
	}
	return len(ids), s.deleteOver(ctx, table, ids, before, states...)
}

// deleteOver deletes rows that purgeOver has found. Another purge may have deleted one since, and a caller may have begun one by its
// id, which stays.
func (s *Store) deleteOver(ctx context.Context, table string, ids []task.ID, before time.Time, states ...any) error {
	_, err := s.db.ExecContext(ctx, s.dialect.deletePinned(table)+" WHERE id IN ("+marks(len(ids))+") AND state IN ("+marks(len(states))+
		") AND updated_at < ?", slices.Concat(idArgs(ids), states, []any{before.UnixMilli()})...)
	if err != nil {
		return fmt.Errorf("delete %d rows of %s: %w", len(ids), table, err)
	}
	return nil
}

// Purged returns up to where the purges of this process have come: finished rows that changed before are gone, but for what
// long transactions committed late, and for ticks to come. It is zero before the first purge.
func (s *Store) Purged() time.Time {
	s.purge.mu.Lock()
	defer s.purge.mu.Unlock()
	return s.purge.at.At
}

// readCursors reads ids in the order of the times beside them, and returns the last place in that order.
func (s *Store) readCursors(ctx context.Context, query string, args []any) (ids []task.ID, last protocol.Cursor, err error) {
	err = forEach(ctx, s.db, query, args, []any{idBytes{&last.ID}, unixMs{&last.At}}, func() { ids = append(ids, last.ID) })
	return ids, last, err
}
