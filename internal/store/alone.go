package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// A change of one task needs no BEGIN and no COMMIT: a statement outside of a transaction is one. What is lost with it
// is a clear answer. A COMMIT's error says by itself whether it was sent; here a context that ended, or a connection that
// broke, leaves open whether the statement took effect, and the error says so to Unclear.

const duplicateEntry = 1062

// insertAlone writes one row at the moment that it also gives back, as LAST_INSERT_ID. The due time is a fixed one, or
// so many milliseconds after that moment, and not before it.
var insertAlone, insertAloneIn = aloneText("?"), aloneText(MySQL.now() + " + ?")

func aloneText(due string) string {
	now := MySQL.now()
	due = "GREATEST(" + now + ", " + due + ")"
	return "INSERT INTO duetime_tasks (" + columns + ") VALUES (?, ?, ?, ?, ?, ?, ?, " + due + ", " + due +
		", ?, ?, ?, ?, ?, ?, ?, LAST_INSERT_ID(" + now + "), " + now + ", NULL)"
}

// InsertAlone writes the row of a new task as a transaction of its own, and gives it as it stands. False says that nothing
// was written: its id or key was taken, or this is SQLite, which has no round trips to save. When the outcome is open the
// task says at least which it was.
func (s *Store) InsertAlone(ctx context.Context, spec task.Spec) (task.Task, bool, error) {
	if s.dialect == SQLite {
		return task.Task{}, false, nil
	}
	t, err := spec.Resolve(time.Now()) // all but its times
	if err != nil {
		return task.Task{}, false, err
	}
	layout, err := s.known(ctx, s.db)
	if err != nil {
		return task.Task{}, false, err
	}
	t.Shard = task.Shard(t.Owner, layout.Shards)
	text, row := insertAlone, t
	if d, relative := spec.In(); relative {
		text, row.DueAt, row.RunAt = insertAloneIn, fromMs(ceilMs(d)), fromMs(ceilMs(d))
	}
	r, err := s.db.ExecContext(ctx, text, rowValues(row)[:columnCount-3]...) // the statement makes the last three
	if isDuplicate(err) {
		return task.Task{}, false, nil
	}
	if err != nil {
		return t, false, fmt.Errorf("insert %s of %s: %w", t.ID, t.Owner, unclear(err))
	}
	now, err := r.LastInsertId()
	if err != nil {
		return t, false, err
	}
	made, err := spec.Resolve(fromMs(now))
	made.Shard = t.Shard
	return made, true, err
}

// ceilMs rounds up, as due times are.
func ceilMs(d time.Duration) int64 {
	ms := d.Milliseconds()
	if time.Duration(ms)*time.Millisecond < d {
		ms++
	}
	return ms
}

// Read reads a row without locking it, and the database's time of that moment; false if there is no such row.
func (s *Store) Read(ctx context.Context, id task.ID) (task.Task, time.Time, bool, error) {
	var ms int64
	rows, err := s.query(ctx, nil, "SELECT "+s.dialect.now()+", "+columns+" FROM duetime_tasks WHERE id = ?", []any{id[:]}, &ms)
	if err != nil {
		return task.Task{}, time.Time{}, false, fmt.Errorf("read task %s: %w", id, err)
	}
	if len(rows) == 0 {
		return task.Task{}, time.Time{}, false, nil
	}
	return rows[0], fromMs(ms), true, nil
}

// SaveAlone is Save of one task as a transaction of its own.
func (s *Store) SaveAlone(ctx context.Context, t task.Task) error {
	return unclear(s.Save(ctx, s.db, []task.Task{t}))
}

// Unclear reports, for an error of InsertAlone or SaveAlone, that nobody can tell whether it took effect.
func (s *Store) Unclear(err error) bool { return s.ambiguousMark(err) }

// unclear marks the error of a statement that was its own transaction, unless it certainly did not take effect.
func unclear(err error) error {
	if err == nil || errors.Is(err, ErrConflict) || refusedCommit(err) || isDial(err) {
		return err
	}
	return &commitError{cause: err}
}
