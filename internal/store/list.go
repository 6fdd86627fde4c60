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

// conditions are those of a WHERE, with their arguments.
type conditions struct {
	texts []string
	args  []any
}

func (c *conditions) add(text string, args ...any) {
	c.texts, c.args = append(c.texts, text), append(c.args, args...)
}

func (c *conditions) text() string { return strings.Join(c.texts, " AND ") }

// addEqual adds that columns have these values; an empty one is any.
func (c *conditions) addEqual(owner, kind, queue, subject string) {
	for _, eq := range [][2]string{{"owner", owner}, {"kind", kind}, {"queue", queue}, {"subject", subject}} {
		if eq[1] != "" {
			c.add(eq[0]+" = ?", eq[1])
		}
	}
}

// addDue adds bounds of the due time; a zero one is none.
func (c *conditions) addDue(from, to time.Time) {
	if !from.IsZero() {
		c.add("due_at >= ?", wholeMs(from))
	}
	if !to.IsZero() {
		c.add("due_at < ?", wholeMs(to))
	}
}

// wholeMs is the first whole millisecond that is not before the moment.
func wholeMs(t time.Time) int64 { return t.Add(time.Millisecond - 1).UnixMilli() }

// addExclusion adds that a row of duetime_tasks is none of those that the exclusion leaves out, and none of the witness unless its
// queue is asked for.
func (c *conditions) addExclusion(e task.Exclusion, queue string) {
	if queue == "" {
		c.add("queue <> '" + protocol.WitnessQueue + "'")
	}
	if len(e.Kinds) > 0 {
		c.add("kind NOT IN ("+marks(len(e.Kinds))+")", anys(e.Kinds)...)
	}
	for _, label := range e.Labels {
		name, value, _ := strings.Cut(label, "=")
		c.add("NOT "+labelCondition, name, value)
	}
}

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

// from is a table of tasks, joined to the rows of each label by the conditions. The first label is read first: it names the
// tasks, which are sorted afterwards. An owner may have fewer tasks than the label: then the database chooses.
func (f Filter) from(d Dialect, t tasksTable) (text string, c conditions) {
	if len(f.Labels) == 0 {
		c.add("1 = 1")
		return " FROM " + t.as(), c
	}
	join := d.LeftFirst()
	if f.Owner != "" {
		join = " JOIN "
	}
	var tables []string
	for i, name := range slices.Sorted(maps.Keys(f.Labels)) {
		table := "l" + strconv.Itoa(i)
		tables = append(tables, "duetime_labels "+table)
		c.add(table+".name = ? AND "+table+".value = ? AND "+table+".task_id = id", name, f.Labels[name])
	}
	return " FROM " + strings.Join(append(tables, t.as()), join), c
}

func (f Filter) where(d Dialect, t tasksTable) (string, []any) {
	from, c := f.from(d, t)
	c.addEqual(f.Owner, f.Kind, f.Queue, f.Subject)
	if f.State != nil {
		c.add("state = ?", int8(*f.State))
	}
	c.addDue(f.DueAfter, f.DueBefore)
	c.addExclusion(f.Exclude, f.Queue)
	if f.After != (protocol.Cursor{}) {
		due := f.After.At.UnixMilli()
		c.add("(due_at > ? OR due_at = ? AND id > ?)", due, due, f.After.ID[:])
	}
	return from + " WHERE " + c.text() + " ORDER BY due_at, id LIMIT ?", append(c.args, cmp.Or(f.Limit, 100))
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

// List reads the rows that the filter selects, by (due_at, id), of both tables.
func (s *Store) List(ctx context.Context, f Filter) ([]task.Task, error) {
	var tasks []task.Task
	for _, t := range []tasksTable{liveTasks, endedTasks} {
		if !t.mayHave(f.State) {
			continue
		}
		where, args := f.where(s.dialect, t)
		found, err := s.query(ctx, nil, SelectUntil(ctx)+wholeRow.list+where, args)
		if err != nil {
			return nil, fmt.Errorf("list tasks: %w", err)
		}
		tasks = append(tasks, found...)
	}
	slices.SortStableFunc(tasks, func(a, b task.Task) int { return cmp.Or(a.DueAt.Compare(b.DueAt), a.ID.Compare(b.ID)) })
	tasks = slices.CompactFunc(tasks, sameID) // one that has moved meanwhile
	return tasks[:min(len(tasks), cmp.Or(f.Limit, 100))], nil
}

// Kinds returns the kinds of the rows that changed last, and of those that ended last, for an operator's choice; rows is how many of each it
// reads.
func (s *Store) Kinds(ctx context.Context, rows int) ([]string, error) {
	kinds := map[string]bool{}
	for _, o := range append([]indexOrder{byChange}, endedOrders...) {
		var kind string
		err := forEach(ctx, s.db, "SELECT DISTINCT kind FROM (SELECT kind"+o.from(s.dialect)+" WHERE "+o.where+o.column+" >= 0 ORDER BY "+
			o.column+" DESC LIMIT ?) lately", []any{rows}, []any{&kind}, func() { kinds[kind] = true })
		if err != nil {
			return nil, fmt.Errorf("list kinds: %w", err)
		}
	}
	return slices.Sorted(maps.Keys(kinds)), nil
}
