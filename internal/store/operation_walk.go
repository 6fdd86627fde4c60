package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// An operation walks by the primary key: whatever it changes in a row, no row comes twice or moves past the cursor. With an
// owner it reads the owner's index instead, and sorts what that holds: an owner has few tasks compared with the table.

// NextIDs reads the ids of the next tasks that the operation may be about, as they are now, in id order behind its cursor:
// at most limit of them, among the next scan rows. It returns up to where it has looked, and whether no row was left. Without
// locks the rows may change at once: the caller compares them once more.
func (s *Store) NextIDs(ctx context.Context, q sqlx.QueryerContext, o task.Operation, scan, limit int) (
	ids []task.ID, next task.ID, over bool, err error,
) {
	last, bounded := task.ID{}, false
	if o.Filter.Owner == "" {
		if last, bounded, err = s.scanEnd(ctx, q, o.Cursor, scan); err != nil {
			return nil, next, false, fmt.Errorf("read where the page of operation %s ends: %w", o.ID, err)
		}
	}
	text, args := s.nextIDsSQL(o, last, bounded, limit)
	var id task.ID
	if err = forEach(ctx, q, "SELECT id"+text, args, []any{idBytes{&id}}, func() { ids = append(ids, id) }); err != nil {
		return nil, next, false, fmt.Errorf("read the tasks of operation %s: %w", o.ID, err)
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
	text := "SELECT id FROM duetime_tasks" + s.dialect.force("PRIMARY") + " WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?"
	err = q.QueryRowxContext(ctx, text, after[:], scan-1).Scan(idBytes{&last})
	if errors.Is(err, sql.ErrNoRows) {
		return last, false, nil
	}
	return last, err == nil, err
}

// nextIDsSQL is the statement of NextIDs after its columns; up to the last id if it is bounded.
func (s *Store) nextIDsSQL(o task.Operation, last task.ID, bounded bool, limit int) (string, []any) {
	index := "PRIMARY"
	if o.Filter.Owner != "" {
		index = "duetime_tasks_owner"
	}
	where, args := s.chosenBy(o)
	where, args = where+" AND id > ?", append(args, o.Cursor[:])
	if bounded {
		where, args = where+" AND id <= ?", append(args, last[:])
	}
	return " FROM duetime_tasks" + s.dialect.force(index) + " WHERE " + where + " ORDER BY id LIMIT ?", append(args, limit)
}

// chosenBy is the condition that the operation's verb and filter choose a row. For an operation that was made it includes
// rows that have ended since, to be counted as such. A comparison in SQL ignores blanks at the end: Operation.Matches decides.
func (s *Store) chosenBy(o task.Operation) (string, []any) {
	from, _ := o.Verb.From()
	conditions, args := []string{"state = ?"}, []any{int64(from)}
	add := func(condition string, values ...any) {
		conditions, args = append(conditions, condition), append(args, values...)
	}
	if !o.CreatedAt.IsZero() {
		at := o.CreatedAt.UnixMilli()
		if from == task.Pending {
			conditions[0], args = "(state = ? OR finished_at >= ?)", append(args, at)
		}
		add("created_at <= ?", at)
	}
	f := o.Filter
	for _, c := range [][2]string{{"owner", f.Owner}, {"kind", f.Kind}, {"queue", f.Queue}, {"subject", f.Subject}} {
		if c[1] != "" {
			add(c[0]+" = ?", c[1])
		}
	}
	if f.OwnerPrefix != "" { // no pattern: there is nothing to escape; and unlike =, INSTR heeds blanks at the end
		add("INSTR(owner, ?) = 1", f.OwnerPrefix)
	}
	if !f.DueAfter.IsZero() {
		add("due_at >= ?", wholeMs(f.DueAfter))
	}
	if !f.DueBefore.IsZero() {
		add("due_at < ?", wholeMs(f.DueBefore))
	}
	for name, value := range f.Labels {
		add(labelCondition, name, value)
	}
	if o.Verb == task.VerbRequeue {
		add("queue <> ?", o.To)
	}
	return strings.Join(conditions, " AND "), args
}

// wholeMs is the first whole millisecond that is not before the moment.
func wholeMs(t time.Time) int64 { return t.Add(time.Millisecond - 1).UnixMilli() }

// CountMatching counts the tasks that the operation would change now. It reads every row of the verb's state, but for an
// owner's.
func (s *Store) CountMatching(ctx context.Context, o task.Operation) (n int64, err error) {
	db, done, err := s.patient()
	if err != nil {
		return 0, err
	}
	defer done()
	text, args := s.previewSQL(o)
	if err := db.GetContext(ctx, &n, selectUntil(ctx)+"COUNT(*)"+text, args...); err != nil {
		return 0, fmt.Errorf("count the tasks of an operation: %w", err)
	}
	return n, nil
}

// Matching reads some of the tasks that CountMatching counts, at most limit, the earliest due first.
func (s *Store) Matching(ctx context.Context, o task.Operation, limit int) ([]task.Task, error) {
	db, done, err := s.patient()
	if err != nil {
		return nil, err
	}
	defer done()
	text, args := s.previewSQL(o)
	tasks, err := s.query(ctx, db, selectUntil(ctx)+wholeRow.list+text+" LIMIT ?", append(args, limit))
	if err != nil {
		return nil, fmt.Errorf("read some tasks of an operation: %w", err)
	}
	slices.SortFunc(tasks, func(a, b task.Task) int { return a.DueAt.Compare(b.DueAt) })
	return tasks, nil
}

func (s *Store) previewSQL(o task.Operation) (string, []any) {
	index := ""
	if o.Filter.Owner != "" {
		index = s.dialect.force("duetime_tasks_owner")
	}
	o.CreatedAt = time.Time{}
	where, args := s.chosenBy(o)
	return " FROM duetime_tasks" + index + " WHERE " + where, args
}
