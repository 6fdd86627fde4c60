package store

import (
	"cmp"
	"context"
	"errors"
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

// Purge deletes finished tasks that have not changed since before, oldest first, up to limit in duetime_tasks and of each state in
// duetime_ended. It returns
// their number, whether the round of calls goes on, and up to where finished rows are deleted: a call examines a bounded number of rows, and
// may find none though finished ones come after. What long transactions commit late, or another daemon has moved behind its back, is deleted
// within purgeLap after.
//
// The row of a recurrence's tick stays until the tick is before that moment too: its key keeps the tick of a task that was
// cancelled, or moved ahead and done, from being made once more.
func (s *Store) Purge(ctx context.Context, of protocol.Purgeable, before time.Time, limit int) (n int, more bool, upTo time.Time, err error) {
	var errs []error
	rounds := s.purgesOf(of)
	upTo = before
	for i, w := range purgeable(of, before) {
		table := cmp.Or(w.pages.table, liveTasks)
		deleted, goesOn, reached, err := rounds[i].step(ctx, s, w, before, purgeOverlap, limit, func(found []task.ID) error {
			if err := s.deleteFinished(ctx, table, found, before); err != nil || table != liveTasks {
				return err
			}
			return s.dropLeftOrders(ctx, found)
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("purge %s: %w", table.name, err))
		}
		n, more = n+deleted, more || goesOn
		if reached.Before(upTo) {
			upTo = reached
		}
	}
	return n, more, upTo, errors.Join(errs...)
}

// purgesOf are the rounds of a purge: of the table of pending tasks, and of the others' for each of the endedStates.
func (s *Store) purgesOf(of protocol.Purgeable) *[3]round {
	s.purgesMu.Lock()
	defer s.purgesMu.Unlock()
	if s.purges == nil {
		s.purges = map[string]*[3]round{}
	}
	key := fmt.Sprintf("%q", of)
	if s.purges[key] == nil {
		s.purges[key] = new([3]round)
	}
	return s.purges[key]
}

// purgeable are the rows to delete, for each of the rounds. The milliseconds of ticks are compared as texts, of 13 digits from 2001 to 2286: a
// key of another program that begins with r may have none.
func purgeable(of protocol.Purgeable, before time.Time) [3]wanted {
	condition, kinds := "", []any(nil)
	switch {
	case len(of.Only) > 0:
		condition, kinds = "state IN (1, 2) AND kind IN ("+marks(len(of.Only))+") AND ", anys(of.Only)
	case len(of.Except) > 0:
		condition, kinds = "(state = 3 OR kind NOT IN ("+marks(len(of.Except))+")) AND ", anys(of.Except)
	}
	live := wanted{
		pages: byChange,
		where: "state <> 0 AND (dedup_key IS NULL OR NOT (" + ofTicks + ") OR SUBSTR(dedup_key, 25) < ?) AND " + condition,
		args:  append([]any{strconv.FormatInt(before.UnixMilli(), 10)}, kinds...),
	}
	ended := func(state task.State) wanted {
		return wanted{pages: endedOrder(state), where: condition, args: kinds, all: condition == ""}
	}
	return [3]wanted{live, ended(endedStates[0]), ended(endedStates[1])}
}

// wanted are rows that a round is about.
type wanted struct {
	pages indexOrder // in which they stand
	where string     // which of these they are, with an AND
	args  []any      // of where
	all   bool       // all of these
}

// sql finds wanted rows up to a page's end; zero: up to the last row.
func (w wanted) sql(d Dialect, before time.Time, after, end protocol.Cursor, limit int) (string, []any) {
	order := w.pages
	order.where += w.where
	text, args := order.sqlUntil(d, window{time.Time{}, before, after, limit}, end)
	return "SELECT id, " + order.column + text, slices.Concat(w.args, args)
}

// round walks through the rows of a table that changed before a moment, oldest first, and goes on from call to call.
type round struct {
	mu     sync.Mutex
	at     protocol.Cursor // where the last call stopped
	going  bool            // a round of calls is under way
	end    protocol.Cursor // of the page that is examined; zero: not known, or the last page
	lapped time.Time       // the limit of the last round that began at the oldest row
	upTo   time.Time       // there are no wanted rows before, as far as is known; zero before the first call
}

// step does something to up to limit wanted rows up to a page's end. A round begins the overlap before the limit of the last one at the
// latest.
func (r *round) step(ctx context.Context, s *Store, w wanted, before time.Time, overlap time.Duration, limit int,
	act func(found []task.ID) error,
) (n int, more bool, upTo time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.upTo.IsZero() {
		r.upTo = before
	}
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
	if end == (protocol.Cursor{}) && !w.all {
		end, err = s.pageEnd(ctx, w.pages, window{to: before, after: after, limit: cmp.Or(s.purgeScan, purgeScan)})
		if err != nil {
			return 0, false, r.upTo, fmt.Errorf("find how far to look for finished tasks: %w", err)
		}
	}
	text, args := w.sql(s.dialect, before, after, end, limit)
	found, last, err := s.readCursors(ctx, text, args)
	if err != nil {
		return 0, false, r.upTo, fmt.Errorf("find finished tasks: %w", err)
	}
	if len(found) > 0 {
		if err := act(found); err != nil {
			return 0, false, r.upTo, err
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
	switch {
	case !r.going:
		r.upTo = before
	case len(found) == limit: // the next wanted row is not far from here
		r.upTo = r.at.At
	case r.at.At.After(r.upTo): // else a lap has begun at the oldest row, where there are pending ones
		r.upTo = r.at.At
	}
	if newLap {
		r.lapped = before
	}
	return len(found), r.going, r.upTo, nil
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

// readCursors reads ids in the order of the times beside them, and returns the last place in that order.
func (s *Store) readCursors(ctx context.Context, query string, args []any) (ids []task.ID, last protocol.Cursor, err error) {
	err = forEach(ctx, s.db, query, args, []any{idBytes{&last.ID}, unixMs{&last.At}}, func() { ids = append(ids, last.ID) })
	return ids, last, err
}
