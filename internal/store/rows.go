package store

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// columns of a task in the order in which they are read.
const columns = "id, kind, owner, subject, queue, shard, state, due_at, run_at, version, attempt, max_attempts, " +
	"dedup_key, payload, last_error, traceparent, created_at, updated_at, finished_at"

// newColumns are those of a new row; the others have their defaults: the shorter a statement, the less there is to parse.
const newColumns = "id, kind, owner, subject, queue, shard, due_at, run_at, max_attempts, dedup_key, payload, traceparent, " +
	"created_at, updated_at, finished_at"

const newValues = "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,0)"

// appendNew appends a new task's values in the order of newColumns.
func appendNew(args []any, t task.Task) []any {
	return append(args,
		t.ID[:], t.Kind, t.Owner, t.Subject, t.Queue, t.Shard, t.DueAt.UnixMilli(), t.RunAt.UnixMilli(),
		t.MaxAttempts, nullText(t.DedupKey), string(t.Payload), t.Traceparent, t.CreatedAt.UnixMilli(), t.UpdatedAt.UnixMilli())
}

// nullText is the value of a column in which NULL stands for the empty text.
func nullText(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// finishedMs is 0 while the task is pending. NULL would mean the same but take no place, and a row that grows when it ends is
// moved within its page: MariaDB would mark a quarter fewer tasks done in the same time.
func finishedMs(t task.Task) int64 {
	if t.FinishedAt.IsZero() {
		return 0
	}
	return t.FinishedAt.UnixMilli()
}

func fromMs(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// readTask scans the columns, after those that the caller wants first.
func readTask(r *sqlx.Rows, first ...any) (task.Task, error) {
	var (
		t                          task.Task
		id                         sql.RawBytes
		due, run, created, updated int64
		key                        sql.NullString
		finished                   sql.NullInt64
	)
	err := r.Scan(append(first, &id, &t.Kind, &t.Owner, &t.Subject, &t.Queue, &t.Shard, &t.State, &due, &run,
		&t.Version, &t.Attempt, &t.MaxAttempts, &key, &t.Payload, &t.LastError, &t.Traceparent, &created, &updated, &finished)...)
	if err != nil {
		return t, fmt.Errorf("scan task: %w", err)
	}
	if t.ID, err = task.IDFromBytes(id); err != nil {
		return t, fmt.Errorf("scan task: %w", err)
	}
	t.DueAt, t.RunAt, t.CreatedAt, t.UpdatedAt = fromMs(due), fromMs(run), fromMs(created), fromMs(updated)
	t.DedupKey = key.String
	if finished.Int64 > 0 {
		t.FinishedAt = fromMs(finished.Int64)
	}
	return t.Sane(), nil
}

// entryColumns are those of which an index entry is made, and when the row was last changed.
const entryColumns = "id, kind, owner, subject, queue, shard, state, run_at, version, updated_at"

// readEntry scans the entry columns; what else the row says stays zero.
func readEntry(r *sqlx.Rows) (task.Task, error) {
	var (
		t            task.Task
		id           sql.RawBytes
		run, updated int64
	)
	err := r.Scan(&id, &t.Kind, &t.Owner, &t.Subject, &t.Queue, &t.Shard, &t.State, &run, &t.Version, &updated)
	if err != nil {
		return t, fmt.Errorf("scan entry: %w", err)
	}
	if t.ID, err = task.IDFromBytes(id); err != nil {
		return t, fmt.Errorf("scan entry: %w", err)
	}
	t.RunAt, t.UpdatedAt = fromMs(run), fromMs(updated)
	return t, nil
}

// selection is what a SELECT reads of a row.
type selection struct {
	columns string
	scan    func(*sqlx.Rows) (task.Task, error)
}

var (
	wholeRow = selection{columns, func(r *sqlx.Rows) (task.Task, error) { return readTask(r) }}
	entry    = selection{entryColumns, readEntry}
)

// query runs a SELECT of the columns. What first points to is scanned from the columns before them, in each row.
func (s *Store) query(ctx context.Context, q sqlx.QueryerContext, text string, args []any, first ...any) ([]task.Task, error) {
	return s.read(ctx, q, func(r *sqlx.Rows) (task.Task, error) { return readTask(r, first...) }, text, args)
}

func (s *Store) read(ctx context.Context, q sqlx.QueryerContext, scan func(*sqlx.Rows) (task.Task, error), text string, args []any) (
	[]task.Task, error,
) {
	layout, err := s.known(ctx, q)
	if err != nil {
		return nil, err
	}
	r, err := s.on(q).QueryxContext(ctx, text, args...)
	if err != nil {
		return nil, closed(err)
	}
	defer func() { _ = r.Close() }() // reading to the end closed it, and an earlier error says more
	var tasks []task.Task
	for r.Next() {
		t, err := scan(r)
		if err != nil {
			return nil, err
		}
		t.Shard = layout.settle(t)
		if tasks == nil {
			tasks = make([]task.Task, 0, len(args)+1) // a look by ids finds no more, and the server's state
		}
		tasks = append(tasks, t)
	}
	return tasks, r.Err()
}

// marks returns n placeholders.
func marks(n int) string { return strings.Repeat(",?", n)[1:] }

// sorted returns the ids in ascending order, each once: the order in which rows are locked.
func sorted(ids []task.ID) []task.ID {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, compareIDs)
	return slices.Compact(ids)
}

func compareIDs(a, b task.ID) int { return bytes.Compare(a[:], b[:]) }

func idArgs(ids []task.ID) []any {
	args := make([]any, len(ids))
	for i := range ids {
		args[i] = ids[i][:]
	}
	return args
}
