package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// indexOrder reads the table in the order of (column, id), which is the order of the index.
type indexOrder struct {
	table         tasksTable // liveTasks if it is zero
	index, column string
	where         string // a further condition, with its AND
	back          bool   // from the last row to the first: where a window's cursor is, the rows before it come
}

var (
	byRunAt     = indexOrder{index: "duetime_tasks_due", column: "run_at", where: "state = 0 AND "}
	deadByRunAt = indexOrder{index: "duetime_tasks_due", column: "run_at", where: "state = 3 AND "}
	byChange    = indexOrder{index: "duetime_tasks_updated", column: "updated_at"}
)

// endOfTime is behind all rows.
var endOfTime = time.UnixMilli(math.MaxInt64)

// window limits one page: times in [from, to), after the cursor if the cursor is in that range, at most limit rows. A
// zero from is before all times.
type window struct {
	from, to time.Time
	after    protocol.Cursor
	limit    int
}

func (o indexOrder) from(d Dialect) string {
	return cmp.Or(o.table, liveTasks).from(d, o.index)
}

// sql returns the text after the columns.
func (o indexOrder) sql(d Dialect, w window) (string, []any) {
	return o.sqlUntil(d, w, protocol.Cursor{})
}

// sqlUntil is sql that reads no row behind an end, unless the end is zero. Its two alternatives are two ranges of the index, in the index's order:
// nothing is sorted, and rows of the cursor's millisecond that are before the cursor are not read.
func (o indexOrder) sqlUntil(d Dialect, w window, end protocol.Cursor) (string, []any) {
	if o.back {
		return o.sqlBack(d, w, end)
	}
	start, at := w.after, w.after.At.UnixMilli()
	switch {
	case w.from.IsZero() && start.At.IsZero():
		at = math.MinInt64 // another program's row may have any time
	case !w.from.IsZero() && start.At.Before(w.from):
		start, at = protocol.Cursor{At: w.from}, w.from.UnixMilli()
	}
	to, last := w.to.UnixMilli(), end.At.UnixMilli()
	if end != (protocol.Cursor{}) {
		to = min(to, last+1)
	}
	text := o.from(d) + " WHERE " + o.where + "((COL = ? AND id > ?) OR (COL > ? AND COL < ?)) AND COL < ?"
	args := []any{at, start.ID[:], at, to, to}
	if end != (protocol.Cursor{}) {
		text += " AND (COL < ? OR (COL = ? AND id <= ?))"
		args = append(args, last, last, end.ID[:])
	}
	if d == SQLite { // it would read from the first row of all, or sort the two ranges
		text += " AND COL >= ?"
		args = append(args, at)
	}
	return strings.ReplaceAll(text+" ORDER BY COL, id LIMIT ?", "COL", o.column), append(args, w.limit)
}

// sqlBack is sqlUntil from the last row of the window to the first, or to the end.
func (o indexOrder) sqlBack(d Dialect, w window, end protocol.Cursor) (string, []any) {
	start, from := w.after, int64(math.MinInt64)
	if start.At.IsZero() || !start.At.Before(w.to) {
		start = protocol.Cursor{At: w.to} // no id is before the zero one
	}
	if !w.from.IsZero() {
		from = w.from.UnixMilli()
	}
	at, last := start.At.UnixMilli(), end.At.UnixMilli()
	if end != (protocol.Cursor{}) {
		from = max(from, last)
	}
	text := o.from(d) + " WHERE " + o.where + "((COL = ? AND id < ?) OR (COL < ? AND COL >= ?)) AND COL >= ? AND COL <= ?"
	args := []any{at, start.ID[:], at, from, from, at}
	if end != (protocol.Cursor{}) {
		text += " AND (COL > ? OR (COL = ? AND id >= ?))"
		args = append(args, last, last, end.ID[:])
	}
	return strings.ReplaceAll(text+" ORDER BY COL DESC, id DESC LIMIT ?", "COL", o.column), append(args, w.limit)
}

// Pending reads a page of pending rows with run_at in [from, to), by (run_at, id), after the cursor; a zero cursor means
// from the first row. It reads only the columns of the index. Fewer than limit rows mean that this was the last page.
func (s *Store) Pending(ctx context.Context, from, to time.Time, after protocol.Cursor, limit int) ([]task.Task, error) {
	tasks, err := s.page(ctx, byRunAt, window{from, to, after, limit})
	if err != nil {
		return nil, fmt.Errorf("read pending tasks: %w", err)
	}
	return tasks, nil
}

// PendingExcept reads a page as Pending does, without the rows of some queues. It reads limit rows, of all queues, and those
// that are inserted meanwhile, and returns where the next page begins; zero when there are no more rows.
func (s *Store) PendingExcept(
	ctx context.Context, except []string, from, to time.Time, after protocol.Cursor, limit int,
) (tasks []task.Task, next protocol.Cursor, err error) {
	w := window{from, to, after, limit}
	if len(except) == 0 {
		if tasks, err = s.Pending(ctx, from, to, after, limit); len(tasks) == limit {
			next = protocol.Cursor{At: tasks[limit-1].RunAt, ID: tasks[limit-1].ID}
		}
		return tasks, next, err
	}
	tasks, next, err = s.selectPage(ctx, byRunAt, w, "queue NOT IN ("+marks(len(except))+")", anys(except))
	if err != nil {
		return nil, protocol.Cursor{}, fmt.Errorf("read pending tasks without %d queues: %w", len(except), err)
	}
	return tasks, next, nil
}

// Look reads a page of pending rows as the look asks, and returns where the next page begins; zero when there are no more
// rows. SQLite, which has one worker, knows no shares.
func (s *Store) Look(ctx context.Context, l protocol.Look) (tasks []task.Task, next protocol.Cursor, err error) {
	condition, values := lookSQL(s.dialect, l)
	order := lookOrder(l)
	tasks, next, err = s.selectPage(ctx, order, window{l.From, l.To, l.After, l.Limit}, condition, values)
	if err != nil {
		return nil, protocol.Cursor{}, fmt.Errorf("look for due tasks of queue %s: %w", l.Queue, err)
	}
	return tasks, next, nil
}

func lookOrder(l protocol.Look) indexOrder {
	order := byRunAt
	order.back = l.Back
	return order
}

// lookSQL is the condition on the rows that a look wants.
func lookSQL(d Dialect, l protocol.Look) (condition string, values []any) {
	condition = "queue = ? AND kind IN (" + marks(len(l.Kinds)) + ")"
	values = append([]any{l.Queue}, anys(l.Kinds)...)
	if !l.Share.Whole() && d != SQLite {
		condition += " AND CRC32(found) MOD ? IN (" + marks(len(l.Share.Mine)) + ")"
		values = append(append(values, l.Share.Of), anys(l.Share.Mine)...)
	}
	return condition, values
}

// selectPage reads the pending rows of a page that meet a condition, and returns where the next page begins.
func (s *Store) selectPage(
	ctx context.Context, order indexOrder, w window, condition string, values []any,
) (tasks []task.Task, next protocol.Cursor, err error) {
	if next, err = s.pageEnd(ctx, order, w); err != nil {
		return nil, next, err
	}
	text, args := order.selectSQL(s.dialect, w, next, condition, values, slack*w.limit)
	tasks, err = s.readPrimary(ctx, entry, text, args)
	return tasks, next, err
}

// slack is how many times its limit a page may have: rows that are inserted before a page's end, after the end was read, must
// not push the last rows out of the page.
const slack = 2

// pageEnd returns the cursor at a page's last row, or zero if the page is not full. The server reads only the index.
func (s *Store) pageEnd(ctx context.Context, order indexOrder, w window) (protocol.Cursor, error) {
	text, args := order.endSQL(s.dialect, w)
	var at int64
	var id []byte
	err := s.db.QueryRowxContext(ctx, text, args...).Scan(&at, &id)
	if errors.Is(err, sql.ErrNoRows) {
		return protocol.Cursor{}, nil
	}
	c := protocol.Cursor{At: time.UnixMilli(at).UTC()}
	copy(c.ID[:], id)
	return c, err
}

func (o indexOrder) endSQL(d Dialect, w window) (string, []any) {
	text, args := o.sql(d, w)
	return "SELECT " + o.column + ", id" + text + " OFFSET ?", append(args[:len(args)-1], 1, w.limit-1)
}

// selectSQL returns the text after the columns that reads the first rows of a page, up to the page's end, that meet a condition.
// It takes the page from the index first: no more rows are read, however many rows don't meet the condition.
func (o indexOrder) selectSQL(d Dialect, w window, end protocol.Cursor, condition string, values []any, limit int) (string, []any) {
	w.limit *= slack
	text, args := o.sqlUntil(d, w, end)
	table := cmp.Or(o.table, liveTasks)
	return " FROM (SELECT id AS found" + text + ") AS page" + d.LeftFirst() +
		table.as() + d.Force(table.byID) + " ON id = found WHERE " + condition + " ORDER BY " + o.column + o.direction() + ", id" + o.direction() +
		" LIMIT " + strconv.Itoa(limit), append(args, values...) // a part of a UNION without a limit has no order
}

func (o indexOrder) direction() string {
	if o.back {
		return " DESC"
	}
	return ""
}

// Changed reads a page of rows of both tables, in any state, with updated_at in [from, to), by (updated_at, id), after the cursor; a zero
// cursor means from the first row. It reads only the columns of the index. Fewer than limit rows mean that this was the
// last page.
func (s *Store) Changed(ctx context.Context, from, to time.Time, after protocol.Cursor, limit int) ([]task.Task, error) {
	var all []task.Task
	for _, order := range append([]indexOrder{byChange}, endedOrders...) {
		tasks, err := s.page(ctx, order, window{from, to, after, limit})
		if err != nil {
			return nil, fmt.Errorf("read changed tasks: %w", err)
		}
		all = append(all, tasks...)
	}
	slices.SortStableFunc(all, func(a, b task.Task) int { return cmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), a.ID.Compare(b.ID)) })
	all = slices.CompactFunc(all, sameID) // one that has moved meanwhile
	return all[:min(len(all), limit)], nil
}

func (s *Store) page(ctx context.Context, order indexOrder, w window) ([]task.Task, error) {
	text, args := order.sql(s.dialect, w)
	return s.readPrimary(ctx, entry, text, args)
}
