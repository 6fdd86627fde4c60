package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// Filter selects rows for an operator; zero fields select all.
type Filter struct {
	Owner     string
	Kind      string
	Queue     string
	Subject   string
	State     *task.State
	DueAfter  time.Time       // due_at at this moment or after it
	DueBefore time.Time       // due_at before this moment
	After     protocol.Cursor // only rows after this place of the list; zero: from its beginning
	Limit     int             // of the rows; default 100

	Labels  map[string]string // that the task has, by name
	Exclude task.Exclusion
}

// from is the table of tasks, joined to the rows of each label by the conditions. The first label is read first: it names the
// tasks, which are sorted afterwards. An owner may have fewer tasks than the label: then the database chooses.
func (f Filter) from(d Dialect) (text string, conditions []string, args []any) {
	if len(f.Labels) == 0 {
		return " FROM duetime_tasks", []string{"1 = 1"}, nil
	}
	join := d.LeftFirst()
	if f.Owner != "" {
		join = " JOIN "
	}
	var tables []string
	for i, name := range slices.Sorted(maps.Keys(f.Labels)) {
		table := "l" + strconv.Itoa(i)
		tables = append(tables, "duetime_labels "+table)
		conditions = append(conditions, table+".name = ? AND "+table+".value = ? AND "+table+".task_id = id")
		args = append(args, name, f.Labels[name])
	}
	return " FROM " + strings.Join(append(tables, "duetime_tasks"), join), conditions, args
}

func (f Filter) where(d Dialect) (string, []any) {
	from, conditions, args := f.from(d)
	add := func(condition string, arg any) {
		conditions, args = append(conditions, condition), append(args, arg)
	}
	if f.Owner != "" {
		add("owner = ?", f.Owner)
	}
	if f.Kind != "" {
		add("kind = ?", f.Kind)
	}
	if f.Queue != "" {
		add("queue = ?", f.Queue)
	}
	if f.Subject != "" {
		add("subject = ?", f.Subject)
	}
	if f.State != nil {
		add("state = ?", int8(*f.State))
	}
	if !f.DueAfter.IsZero() {
		add("due_at >= ?", wholeMs(f.DueAfter))
	}
	if !f.DueBefore.IsZero() {
		add("due_at < ?", wholeMs(f.DueBefore))
	}
	conditions, args = exclude(f.Exclude, conditions, args)
	if f.After != (protocol.Cursor{}) {
		due := f.After.At.UnixMilli()
		conditions = append(conditions, "(due_at > ? OR due_at = ? AND id > ?)")
		args = append(args, due, due, f.After.ID[:])
	}
	return from + " WHERE " + strings.Join(conditions, " AND ") + " ORDER BY due_at, id LIMIT ?",
		append(args, cmp.Or(f.Limit, 100))
}

const (
	listGrace = time.Second    // after its caller's deadline, so that the caller is told of the deadline
	maxListed = 24 * time.Hour // of a statement with a limit: the servers take no limit of any length
)

// SelectUntil begins a SELECT that the server gives up soon after the deadline of ctx. A server goes on with a statement whose
// client has left: callers who try again would have it sort the same million rows several times at once.
func SelectUntil(ctx context.Context) string {
	deadline, limited := ctx.Deadline()
	if !limited {
		return "SELECT "
	}
	return selectLimited(min(max(time.Until(deadline), 0), maxListed) + listGrace)
}

// selectLimited begins a SELECT that the server gives up after so long. MySQL takes MariaDB's limit for a comment, MariaDB takes MySQL's
// for one, and SQLite both.
func selectLimited(limit time.Duration) string {
	ms := limit.Milliseconds()
	return fmt.Sprintf("/*M!100100 SET STATEMENT max_statement_time = %d.%03d FOR*/ SELECT /*+ MAX_EXECUTION_TIME(%d) */ ",
		ms/1000, ms%1000, ms)
}

// List reads the rows that the filter selects, by (due_at, id).
func (s *Store) List(ctx context.Context, f Filter) ([]task.Task, error) {
	where, args := f.where(s.dialect)
	tasks, err := s.query(ctx, nil, SelectUntil(ctx)+wholeRow.list+where, args)
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	return tasks, nil
}

// Kinds returns the kinds of the last changed rows, for an operator's choice; rows is how many rows it reads.
func (s *Store) Kinds(ctx context.Context, rows int) ([]string, error) {
	var kinds []string
	err := s.db.SelectContext(ctx, &kinds, "SELECT DISTINCT kind FROM (SELECT kind FROM duetime_tasks"+
		s.dialect.Force("duetime_tasks_updated")+" ORDER BY updated_at DESC LIMIT ?) lately ORDER BY kind", rows)
	if err != nil {
		return nil, fmt.Errorf("list kinds: %w", err)
	}
	return kinds, nil
}
