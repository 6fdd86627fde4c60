package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// A change of one task needs no BEGIN and no COMMIT: a statement outside of a transaction is one. What is lost with it
// is a clear answer. A COMMIT's error says by itself whether it was sent; here a context that ended, or a connection that
// broke, leaves open whether the statement took effect, and the error says so to Unclear.

// created_at comes first, for the other times to count from it: it is the statement's moment, which comes back as
// LAST_INSERT_ID. The due time is a fixed moment, or a number of milliseconds after created_at, and not before created_at. The
// key's column has its default: tasks with a key are not inserted here.
var (
	aloneTimes = []string{"created_at", "updated_at", "due_at", "run_at"}
	aloneRow   = having(inserted, append(aloneTimes, "dedup_key")...)
	aloneInto  = "INSERT INTO duetime_tasks (" + strings.Join(aloneTimes, ", ") + ", " + names(aloneRow) + ") VALUES "
	aloneAt    = aloneMarks("?")
	aloneIn    = aloneMarks("created_at + ?")
)

func aloneMarks(due string) string {
	return ",(LAST_INSERT_ID(" + MySQL.now() + "), created_at, GREATEST(created_at, " + due + "), due_at, " + marks(len(aloneRow)) + ")"
}

// InsertAlone writes the rows of new tasks in one statement, which is a transaction of its own, and gives them as they
// stand. Nil says that nothing was written: an id was taken, or one has a key, or this is SQLite, which has no round trips
// to save.
func (s *Store) InsertAlone(ctx context.Context, specs []task.Spec) ([]task.Task, error) {
	if s.dialect == SQLite {
		return nil, nil
	}
	layout, err := s.known(ctx, s.db)
	if err != nil {
		return nil, err
	}
	tasks, due := make([]task.Task, len(specs)), make([]int64, len(specs))
	var text strings.Builder
	text.WriteString(aloneInto)
	args := make([]any, 0, len(specs)*(1+len(aloneRow)))
	for i, spec := range specs {
		t, err := spec.Resolve(time.Now()) // its limits, and all but its times: those are of the database's clock
		if err != nil || t.DedupKey != "" {
			return nil, err
		}
		t.Shard = task.Shard(t.Owner, layout.Shards)
		var row string
		if at, fixed := spec.At(); fixed {
			row, due[i] = aloneAt, at.UnixMilli()
		} else {
			d, _ := spec.In()
			row, due[i] = aloneIn, ceilMs(d)
		}
		if i == 0 {
			row = row[1:] // its comma
		}
		text.WriteString(row)
		tasks[i] = t
		args = appendValues(append(args, due[i]), aloneRow, &tasks[i])
	}
	r, err := s.db.ExecContext(ctx, text.String(), args...)
	if Classify(err) == Duplicate {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("insert %d tasks, the first %s: %w", len(specs), specs[0].ID(), markUnlessRefused(err))
	}
	now, err := r.LastInsertId()
	if err != nil {
		return nil, err
	}
	for i, spec := range specs {
		if _, relative := spec.In(); relative {
			due[i] += now
		}
		t := &tasks[i]
		t.CreatedAt, t.UpdatedAt = fromMs(now), fromMs(now)
		t.DueAt = fromMs(max(due[i], now))
		t.RunAt = t.DueAt
	}
	return tasks, nil
}

// ceilMs rounds up, as due times are.
func ceilMs(d time.Duration) int64 {
	ms := d.Milliseconds()
	if time.Duration(ms)*time.Millisecond < d {
		ms++
	}
	return ms
}

// ReadFree reads a row that nobody has locked, and the database's time of that moment; false if somebody has, or if there is
// no such row. It doesn't wait, and keeps no lock.
func (s *Store) ReadFree(ctx context.Context, id task.ID) (task.Task, time.Time, bool, error) {
	var ms int64
	rows, err := s.query(ctx, nil, "SELECT "+s.dialect.state()+", "+s.dialect.now()+", "+wholeRow.list+" FROM duetime_tasks WHERE id = ?"+
		s.dialect.skipLocked(), []any{id[:]}, writable{}, &ms)
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
	return markUnlessRefused(s.Save(ctx, s.db, []task.Task{t}))
}
