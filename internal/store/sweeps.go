package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// sweep is a way through the table in the order of (column, id), which is that of the index.
type sweep struct {
	index, column string
	where         string // a further condition, with its AND
}

var (
	byRunAt       = sweep{index: "duetime_tasks_due", column: "run_at", where: "state = 0 AND "}
	byChange      = sweep{index: "duetime_tasks_updated", column: "updated_at"}
	endedByChange = sweep{index: "duetime_tasks_updated", column: "updated_at", where: "state <> 0 AND "}
)

// window is what one page may hold: times in [from, to), after the cursor if that lies in it, at most limit rows. A zero from
// is before all times.
type window struct {
	from, to time.Time
	after    task.Cursor
	limit    int
}

// sql returns what follows the table's name. The two alternatives are two ranges of the index in its own order: nothing
// is sorted, and rows of one millisecond before the cursor are not read again.
func (s sweep) sql(d Dialect, w window) (string, []any) {
	start, at := w.after, w.after.At.UnixMilli()
	switch {
	case w.from.IsZero() && start.At.IsZero():
		at = math.MinInt64 // another program's row may have any time
	case !w.from.IsZero() && start.At.Before(w.from):
		start, at = task.Cursor{At: w.from}, w.from.UnixMilli()
	}
	to := w.to.UnixMilli()
	text := d.force(s.index) + " WHERE " + s.where +
		"((COL = ? AND id > ?) OR (COL > ? AND COL < ?)) AND COL < ? ORDER BY COL, id LIMIT ?"
	return strings.ReplaceAll(text, "COL", s.column), []any{at, start.ID[:], at, to, to, w.limit}
}

// Pending reads a page of pending rows with run_at in [from, to), by (run_at, id), beginning after the cursor; a zero
// cursor begins at from. Only what the index needs is read. Fewer than limit rows mean that this was the last page.
func (s *Store) Pending(ctx context.Context, from, to time.Time, after task.Cursor, limit int) ([]task.Task, error) {
	tasks, err := s.page(ctx, byRunAt, window{from, to, after, limit})
	if err != nil {
		return nil, fmt.Errorf("read pending tasks: %w", err)
	}
	return tasks, nil
}

// PendingExcept reads a page as Pending does, without the rows of some queues. It looks at limit rows at most, whosever
// they are, and returns where the next page begins; zero when there are no more rows.
func (s *Store) PendingExcept(
	ctx context.Context, except []string, from, to time.Time, after task.Cursor, limit int,
) (tasks []task.Task, next task.Cursor, err error) {
	w := window{from, to, after, limit}
	if len(except) == 0 {
		if tasks, err = s.Pending(ctx, from, to, after, limit); len(tasks) == limit {
			next = task.Cursor{At: tasks[limit-1].RunAt, ID: tasks[limit-1].ID}
		}
		return tasks, next, err
	}
	// The end first: a row that comes in between makes the page end a little later, and none is left out.
	if next, err = s.end(ctx, byRunAt, w); err == nil {
		text, args := byRunAt.except(s.dialect, w, except)
		text = strings.TrimPrefix(text, "SELECT "+entry.list) + " LIMIT " + strconv.Itoa(limit) // a part of a UNION has no order without
		tasks, err = s.readTruth(ctx, entry, text, args)
	}
	if err != nil {
		return nil, task.Cursor{}, fmt.Errorf("read pending tasks without %d queues: %w", len(except), err)
	}
	return tasks, next, nil
}

// end returns the place of a page's last row, or zero where the page is not full. The index alone answers.
func (s *Store) end(ctx context.Context, way sweep, w window) (task.Cursor, error) {
	text, args := way.endSQL(s.dialect, w)
	var at int64
	var id []byte
	err := s.db.QueryRowxContext(ctx, text, args...).Scan(&at, &id)
	if errors.Is(err, sql.ErrNoRows) {
		return task.Cursor{}, nil
	}
	c := task.Cursor{At: time.UnixMilli(at).UTC()}
	copy(c.ID[:], id)
	return c, err
}

func (s sweep) endSQL(d Dialect, w window) (string, []any) {
	text, args := s.sql(d, w)
	return "SELECT " + s.column + ", id FROM duetime_tasks" + text + " OFFSET ?", append(args[:len(args)-1], 1, w.limit-1)
}

// except reads a page without the rows of some queues. The page is taken from the index first, so that as many rows are
// looked up as it has, however many there are of those queues.
func (s sweep) except(d Dialect, w window, queues []string) (string, []any) {
	text, args := s.sql(d, w)
	for _, queue := range queues {
		args = append(args, queue)
	}
	return "SELECT " + entry.list + " FROM (SELECT id AS found FROM duetime_tasks" + text + ") AS page" + d.inTurn() +
		"duetime_tasks" + d.force("PRIMARY") + " ON id = found WHERE queue NOT IN (?" + strings.Repeat(", ?", len(queues)-1) +
		") ORDER BY " + s.column + ", id", args
}

// Changed reads a page of rows in any state with updated_at in [from, to), by (updated_at, id), beginning after the
// cursor; a zero cursor begins at from. Only what the index needs is read. Fewer than limit rows mean that this was the
// last page.
func (s *Store) Changed(ctx context.Context, from, to time.Time, after task.Cursor, limit int) ([]task.Task, error) {
	tasks, err := s.page(ctx, byChange, window{from, to, after, limit})
	if err != nil {
		return nil, fmt.Errorf("read changed tasks: %w", err)
	}
	return tasks, nil
}

func (s *Store) page(ctx context.Context, way sweep, w window) ([]task.Task, error) {
	text, args := way.sql(s.dialect, w)
	return s.readTruth(ctx, entry, " FROM duetime_tasks"+text, args)
}

// Entries reads of the rows of these ids only what the index needs, without locking. Missing ids are absent from the
// answer.
func (s *Store) Entries(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	tasks, err := s.truthByID(ctx, entry, ids)
	if err != nil {
		return nil, fmt.Errorf("read %d entries: %w", len(ids), err)
	}
	return tasks, nil
}

// Overdue counts the pending rows whose run_at passed more than grace ago, on the database's clock.
func (s *Store) Overdue(ctx context.Context, grace time.Duration) (int64, error) {
	var n int64
	err := s.db.QueryRowxContext(ctx, "SELECT COUNT(*) FROM duetime_tasks"+s.dialect.force("duetime_tasks_due")+
		" WHERE state = 0 AND run_at < "+s.dialect.now()+" - ?", grace.Milliseconds()).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count overdue tasks: %w", err)
	}
	return n, nil
}
