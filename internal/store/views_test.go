package store_test

import (
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
)

// onLargeTable runs a case on a MySQL and an SQLite store with the rows.
func onLargeTable(t *testing.T, rows []task.Task, run func(t *testing.T, s *store.Store)) {
	t.Helper()
	t.Run("mysql", func(t *testing.T) {
		t.Parallel()
		s, _ := openMySQLStore(t, store.Options{})
		write(t, s, len(rows), func(i int) task.Task { return rows[i] })
		run(t, s)
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		s := openSQLite(t)
		write(t, s, len(rows), func(i int) task.Task { return rows[i] })
		run(t, s)
	})
}

// write inserts rows in any state.
func write(t testing.TB, s *store.Store, n int, row func(i int) task.Task) {
	t.Helper()
	const chunk = 1000
	for from := 0; from < n; from += chunk {
		args := make([]any, 0, 12*chunk)
		for i := from; i < min(n, from+chunk); i++ {
			r := row(i)
			var finished any
			if !r.FinishedAt.IsZero() {
				finished = r.FinishedAt.UnixMilli()
			}
			args = append(args, r.ID[:], r.Kind, r.Owner, r.Queue, int8(r.State), r.DueAt.UnixMilli(), r.RunAt.UnixMilli(),
				"{}", r.LastError, r.CreatedAt.UnixMilli(), r.UpdatedAt.UnixMilli(), finished)
		}
		must(t, exec(s.DB(), "INSERT INTO duetime_tasks (id, kind, owner, queue, state, due_at, run_at, payload, last_error,"+
			" created_at, updated_at, finished_at) VALUES "+strings.Repeat(",(?,?,?,?,?,?,?,?,?,?,?,?)", len(args)/12)[1:], args...))
	}
}

// generator makes rows whose ids have random tails, the same ones in each run.
type generator struct {
	random *rand.Rand
	made   uint64
}

func newGenerator() *generator { return &generator{random: rand.New(rand.NewPCG(1, 2))} }

// id has an order like that of UUIDv7.
func (g *generator) id() (id task.ID) {
	g.made++
	binary.BigEndian.PutUint64(id[:8], g.made)
	binary.BigEndian.PutUint64(id[8:], g.random.Uint64())
	return id
}

// pending makes a task that is due at a moment. Seven of ten are of kind a, the others of kind b.
func (g *generator) pending(at time.Time) task.Task {
	kind := "a"
	if g.random.IntN(10) >= 7 {
		kind = "b"
	}
	made := at.Add(-24 * time.Hour)
	return task.Task{
		ID: g.id(), Kind: kind, Owner: fmt.Sprint("owner-", g.made%1000), Queue: "default",
		DueAt: at, RunAt: at, CreatedAt: made, UpdatedAt: made,
	}
}

// done makes a task whose effect came this long after its due time.
func (g *generator) done(at time.Time, lag time.Duration) task.Task {
	row := g.pending(at)
	row.State, row.UpdatedAt, row.FinishedAt = task.Done, at.Add(lag), at.Add(lag)
	return row
}

// about reports whether a number is another one, but for a part of that.
func about(got, want, tolerance float64) bool {
	return got >= want*(1-tolerance) && got <= want*(1+tolerance)
}

// tablePlan is a line of EXPLAIN with the table that it is about.
type tablePlan struct {
	Table sql.NullString `db:"table"`
	plan
}

// explained returns the lines of EXPLAIN that are about our tables.
func explained(t *testing.T, s *store.Store, of store.Statement) []tablePlan {
	t.Helper()
	var plans []tablePlan
	must(t, s.DB().Unsafe().SelectContext(t.Context(), &plans, "EXPLAIN FORMAT=TRADITIONAL "+of.Text, of.Args...))
	return slices.DeleteFunc(plans, func(p tablePlan) bool { return !strings.HasPrefix(p.Table.String, "duetime_") })
}

// viewStatement is a statement of a view, and the index that it reads.
type viewStatement struct {
	of    store.Statement
	index string
}

func viewStatements(d store.Dialect) map[string]viewStatement {
	const due, updated, actor = "duetime_tasks_due", "duetime_tasks_updated", "duetime_history_actor"
	acts := store.ActQuery{
		Actors: []string{"ann@host", "bob@host"}, From: t0, After: store.ActCursor{At: t0.Add(time.Hour), Seq: 7}, Limit: 100,
	}
	return map[string]viewStatement{
		"counts by run time":  {store.CountSpansSQL(d, true, t0, time.Minute, 9), due},
		"counts by change":    {store.CountSpansSQL(d, false, t0, time.Minute, 9), updated},
		"samples by run time": {store.SampleSpansSQL(d, true, "kind", t0, time.Minute, 9), due},
		"samples by change":   {store.SampleSpansSQL(d, false, store.LagColumns, t0, time.Minute, 9), updated},
		"dead tasks":          {store.DeadSQL(d), due},
		"operators":           {store.OperatorSQL(d), actor},
		"acts":                {store.ActsSQL(d, acts), actor},
	}
}

// What views read is a range of an index. Entries are counted in the index alone, samples are chosen there, nothing is sorted.
func TestViewPlans(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{})
	rows := filled(t, s, 3000)
	dead := slices.Clone(rows[:500])
	for i := range dead {
		dead[i] = dead[i].Discard(errSick, t0)
	}
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, worldtest.Save(ctx, s, tx, dead...)) })
	var lines []task.Event
	for i := range 3000 {
		lines = append(lines, task.Event{
			At: t0.Add(time.Duration(i) * time.Second), Task: task.NewID(), Name: task.EventMoved,
			Actor: []string{"service", "worker", "ann@host", "bob@host"}[min(3, i%10)],
		})
	}
	must(t, s.Record(t.Context(), nil, lines))
	must(t, exec(s.DB(), "UPDATE duetime_tasks SET updated_at = due_at")) // over an hour, not all at one moment
	// Until they are purged, entries that the changes above left behind count in estimates, and make a range look like the table.
	must(t, exec(s.DB(), "OPTIMIZE TABLE duetime_tasks"))
	must(t, exec(s.DB(), "ANALYZE TABLE duetime_tasks, duetime_history"))
	for name, c := range map[string]struct {
		extra   string // what EXPLAIN says more
		refused string // what it doesn't say, besides filesort
		lines   int    // about our tables
	}{
		"counts by run time":  {"Using index", "condition", 9},
		"counts by change":    {"Using index", "condition", 9},
		"samples by run time": {"Using index condition", "Using where", 9},
		"samples by change":   {"Using index condition", "Using where", 9},
		"dead tasks":          {"", "temporary", 1},
		"operators":           {"Using index", "condition", 1},
		"acts":                {"Using index", "condition", 2},
	} {
		found, view := 0, viewStatements(store.MySQL)[name]
		for _, p := range explained(t, s, view.of) {
			if p.Key.String == "PRIMARY" && p.Type.String == "eq_ref" { // a row by its number, which was found before
				continue
			}
			found++
			says := func(text string) bool { return strings.Contains(p.Extra.String, text) }
			ranged := p.Type.String == "range" || p.Type.String == "ref"
			if p.Key.String != view.index || !ranged || !says(c.extra) || says(c.refused) || says("filesort") {
				t.Errorf("%s: plan %+v", name, p)
			}
		}
		if found != c.lines {
			t.Errorf("%s: %d plans, want %d", name, found, c.lines)
		}
	}
}

// Few rows are all read. Of many, half of the sample is shared equally, and half by their number.
func TestSampleRows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		entries []int64
		whole   []float64
		budget  int64
		want    []int64
	}{
		"few":             {[]int64{3, 0, 7}, []float64{3, 0, 7}, 10, []int64{3, 0, 7}},
		"none":            {nil, nil, 10, []int64{}},
		"one of many":     {[]int64{1000}, []float64{1000}, 100, []int64{100}},
		"a small one":     {[]int64{10, 1000, 1000}, []float64{10, 995, 995}, 100, []int64{10, 44, 44}},
		"a large one":     {[]int64{100, 100}, []float64{100, 900}, 100, []int64{30, 70}},
		"small budget":    {[]int64{5, 5, 5}, []float64{5, 5, 5}, 2, []int64{1, 1, 1}},
		"more than there": {[]int64{40, 100}, []float64{9900, 100}, 100, []int64{40, 25}},
	} {
		if got := store.SampleRows(c.entries, c.whole, c.budget); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// SQLite reads the same ranges, and looks rows up by their ids alone.
func TestViewPlansOfSQLite(t *testing.T) {
	t.Parallel()
	s := openSQLite(t)
	for name, view := range viewStatements(store.SQLite) {
		var plans []struct{ Detail string }
		must(t, s.DB().Unsafe().SelectContext(t.Context(), &plans, "EXPLAIN QUERY PLAN "+view.of.Text, view.of.Args...))
		found := 0
		for _, p := range plans {
			switch {
			case strings.Contains(p.Detail, "INDEX "+view.index):
				found++
			case strings.Contains(p.Detail, "duetime_") && !strings.Contains(p.Detail, "PRIMARY KEY"):
				t.Errorf("%s: plan %s", name, p.Detail)
			}
		}
		if found == 0 {
			t.Errorf("%s: the index %s is not read: %v", name, view.index, plans)
		}
	}
}
