package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// An operation walks by the primary key: whatever it changes in a row, no row comes twice or moves past the cursor. With an
// owner it takes the ids from the owner's index. That is not in their order, so they are sorted, and kept for the next pages:
// otherwise each page of an owner with a million tasks would sort a million. A filter may list the ids itself. Whether a row is
// still one to change, its page asks.

const (
	ownedAhead = 10_000 // ids that are kept for the next pages of an operation
	maxOwned   = 16     // operations for which ids are kept
)

// ownedIDs are ids of an owner's tasks, in id order.
type ownedIDs struct {
	after task.ID // they are behind this one
	ids   []task.ID
	more  bool // others are behind them
}

// behind returns what follows a cursor; false if that is not known.
func (w ownedIDs) behind(cursor task.ID) ([]task.ID, bool) {
	n, found := slices.BinarySearchFunc(w.ids, cursor, task.ID.Compare)
	if found {
		n++
	}
	known := !cursor.IsZero() && cursor.Compare(w.after) >= 0 && (n < len(w.ids) || !w.more)
	return w.ids[n:], known
}

// NextIDs reads the ids of the next tasks that the operation may be about, as they are now, in id order behind its cursor:
// at most limit of them, among the next scan rows. It returns up to where it has looked, and whether no row was left. Without
// locks the rows may change at once: the caller compares them once more.
func (s *Store) NextIDs(ctx context.Context, q sqlx.QueryerContext, o task.Operation, scan, limit int) (
	ids []task.ID, next task.ID, over bool, err error,
) {
	if o.Filter.Owner != "" || len(o.Filter.IDs) > 0 {
		return s.nextListed(ctx, q, o, scan, limit)
	}
	last, bounded, err := s.scanEnd(ctx, q, o.Cursor, scan)
	if err != nil {
		return nil, next, false, fmt.Errorf("read where the page of operation %s ends: %w", o.ID, err)
	}
	where, args := " AND id > ?", []any{o.Cursor[:]}
	if bounded {
		where, args = where+" AND id <= ?", append(args, last[:])
	}
	if ids, err = s.chosenIDs(ctx, q, o, where, args, limit); err != nil {
		return nil, next, false, err
	}
	switch {
	case len(ids) == limit:
		return ids, ids[limit-1], false, nil
	case bounded:
		return ids, last, false, nil
	case len(ids) > 0:
		return ids, ids[len(ids)-1], true, nil
	}
	return nil, o.Cursor, true, nil
}

// scanEnd returns the id of the last one of the next scan rows; false if there are fewer.
func (s *Store) scanEnd(ctx context.Context, q sqlx.QueryerContext, after task.ID, scan int) (
	last task.ID, found bool, err error,
) {
	text := "SELECT id FROM duetime_tasks" + s.dialect.Force("PRIMARY") + " WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?"
	err = q.QueryRowxContext(ctx, text, after[:], scan-1).Scan(idBytes{&last})
	if errors.Is(err, sql.ErrNoRows) {
		return last, false, nil
	}
	return last, err == nil, err
}

// nextListed is NextIDs of an operation with an owner or a list of ids.
func (s *Store) nextListed(ctx context.Context, q sqlx.QueryerContext, o task.Operation, scan, limit int) (
	ids []task.ID, next task.ID, over bool, err error,
) {
	found, _ := ownedIDs{ids: o.Filter.IDs}.behind(o.Cursor)
	more := false
	if len(o.Filter.IDs) == 0 {
		if found, more, err = s.ownedBehind(ctx, q, o); err != nil {
			return nil, next, false, err
		}
	}
	if len(found) > scan {
		found, more = found[:scan], true
	}
	next = o.Cursor
	for part := range slices.Chunk(found, task.MaxPerCall) {
		chosen, err := s.chosenIDs(ctx, q, o, " AND id IN ("+marks(len(part))+")", idArgs(part), limit-len(ids))
		if err != nil {
			return nil, next, false, err
		}
		if ids = append(ids, chosen...); len(ids) == limit {
			return ids, ids[limit-1], false, nil
		}
		next = part[len(part)-1]
	}
	return ids, next, !more, nil
}

// ownedBehind returns ids of the operation's owner behind its cursor, and whether others follow. It knows them from an earlier
// page, or reads them: by the index alone, without their rows.
func (s *Store) ownedBehind(ctx context.Context, q sqlx.QueryerContext, o task.Operation) (ids []task.ID, more bool, err error) {
	s.ownedMu.Lock()
	w, kept := s.owned[o.ID]
	s.ownedMu.Unlock()
	if ids, known := w.behind(o.Cursor); kept && known {
		return ids, w.more, nil
	}
	where, args := "owner = ? AND id > ?", []any{o.Filter.Owner, o.Cursor[:]}
	if from, _ := o.Verb.From(); from == task.Dead {
		where, args = where+" AND state = ?", append(args, int64(from))
	}
	w = ownedIDs{after: o.Cursor}
	limit := cmp.Or(s.ownedAhead, ownedAhead)
	var id task.ID
	err = forEach(ctx, q, "SELECT id FROM duetime_tasks"+s.dialect.Force("duetime_tasks_owner")+" WHERE "+where+" ORDER BY id LIMIT ?",
		append(args, limit), []any{idBytes{&id}}, func() { w.ids = append(w.ids, id) })
	if err != nil {
		return nil, false, fmt.Errorf("read the tasks of owner %s for operation %s: %w", o.Filter.Owner, o.ID, err)
	}
	w.more = len(w.ids) == limit
	s.ownedMu.Lock()
	defer s.ownedMu.Unlock()
	if len(s.owned) >= maxOwned || s.owned == nil {
		s.owned = map[task.ID]ownedIDs{}
	}
	s.owned[o.ID] = w
	return w.ids, w.more, nil
}

// chosenIDs reads the ids of the tasks that the operation may be about, by the primary key.
func (s *Store) chosenIDs(ctx context.Context, q sqlx.QueryerContext, o task.Operation, where string, bounds []any, limit int) (
	ids []task.ID, err error,
) {
	chosen, args := s.chosenBy(o)
	var id task.ID
	err = forEach(ctx, q, "SELECT id FROM duetime_tasks"+s.dialect.Force("PRIMARY")+" WHERE "+chosen+where+" ORDER BY id LIMIT ?",
		append(append(args, bounds...), limit), []any{idBytes{&id}}, func() { ids = append(ids, id) })
	if err != nil {
		return nil, fmt.Errorf("read the tasks of operation %s: %w", o.ID, err)
	}
	return ids, nil
}

// chosenBy is the condition that the operation's verb and filter choose a row. For an operation that was made it includes
// rows that have ended since, to be counted as such. A comparison in SQL ignores blanks at the end: transition.OperationMatches decides.
func (s *Store) chosenBy(o task.Operation) (string, []any) {
	from, _ := o.Verb.From()
	var c conditions
	at := o.CreatedAt.UnixMilli()
	if from == task.Pending && !o.CreatedAt.IsZero() {
		c.add("(state = ? OR finished_at >= ?)", int64(from), at)
	} else {
		c.add("state = ?", int64(from))
	}
	if !o.CreatedAt.IsZero() {
		c.add("created_at <= ?", at)
	}
	f := o.Filter
	c.addEqual(f.Owner, f.Kind, f.Queue, f.Subject)
	if f.OwnerPrefix != "" { // no pattern: there is nothing to escape; and unlike =, INSTR heeds blanks at the end
		c.add("INSTR(owner, ?) = 1", f.OwnerPrefix)
	}
	c.addDue(f.DueAfter, f.DueBefore)
	if !f.DiedBefore.IsZero() {
		c.add("COALESCE(finished_at, 0) < ?", wholeMs(f.DiedBefore))
	}
	for name, value := range f.Labels {
		c.add(labelCondition, name, value)
	}
	c.addExclusion(f.Exclude, f.Queue)
	if o.LeavesRecurrences() {
		c.add("(dedup_key IS NULL OR NOT (" + ofTicks + "))")
	}
	if o.Verb == task.VerbRequeue {
		c.add("queue <> ?", o.To)
	}
	if !o.Undoes.IsZero() { // the first condition spares most rows the second, which asks an index for each
		c.add("updated_at >= (SELECT created_at FROM duetime_operations WHERE id = ?)", o.Undoes[:])
		c.add("updated_at = (SELECT MAX(at) FROM duetime_history AS h WHERE task = duetime_tasks.id AND event = ? AND detail LIKE ?"+
			" AND NOT EXISTS (SELECT 1 FROM duetime_history AS later WHERE later.task = h.task AND later.seq > h.seq AND later.at = h.at))",
			protocol.EventMoved, transition.ShiftedDetail(o.Undoes, -o.By))
	}
	return c.text(), c.args
}

// CountMatching counts the tasks that the operation would change now, if it had no limit. It reads every row of the verb's state,
// but for an owner's and for a list of ids.
func (s *Store) CountMatching(ctx context.Context, o task.Operation) (int64, error) {
	text, args := s.previewSQL(o)
	return s.count(ctx, "the tasks of an operation", SelectUntil(ctx)+"COUNT(*)"+text, args...)
}

// Matching reads some of the tasks that CountMatching counts, at most limit, the earliest due first. They are the first ones by id if the
// operation has a limit.
func (s *Store) Matching(ctx context.Context, o task.Operation, limit int) ([]task.Task, error) {
	db, done, err := s.patient()
	if err != nil {
		return nil, err
	}
	defer done()
	text, args := s.previewSQL(o)
	if o.Limit > 0 {
		text += " ORDER BY id"
	}
	tasks, err := s.query(ctx, db, SelectUntil(ctx)+wholeRow.list+text+" LIMIT ?", append(args, limit))
	if err != nil {
		return nil, fmt.Errorf("read some tasks of an operation: %w", err)
	}
	slices.SortFunc(tasks, func(a, b task.Task) int { return a.DueAt.Compare(b.DueAt) })
	return tasks, nil
}

func (s *Store) previewSQL(o task.Operation) (string, []any) {
	o.CreatedAt = time.Time{}
	where, args := s.chosenBy(o)
	index := ""
	switch f := o.Filter; {
	case len(f.IDs) > 0:
		index = s.dialect.Force("PRIMARY")
		where, args = where+" AND id IN ("+marks(len(f.IDs))+")", append(args, idArgs(f.IDs)...)
	case f.Owner != "":
		index = s.dialect.Force("duetime_tasks_owner")
	}
	return " FROM duetime_tasks" + index + " WHERE " + where, args
}
