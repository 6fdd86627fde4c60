package views

import (
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines())) }

// t0 is an arbitrary moment.
var t0 = time.UnixMilli(1_800_000_000_000).UTC()

// TestConformance has the cases with the same results on both databases.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(t *testing.T, v Views){
		"ahead":                  ahead,
		"sample of lag":          lagSample,
		"newest dead tasks":      newestDead,
		"acts":                   acts,
		"acts of many operators": manyOperators,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, nil, run)
		})
	}
}

// onBoth runs a case on a MySQL and an SQLite store with the rows.
func onBoth(t *testing.T, rows []task.Task, run func(t *testing.T, v Views)) {
	t.Helper()
	t.Run("mysql", func(t *testing.T) {
		t.Parallel()
		v := openMySQL(t)
		write(t, v, len(rows), func(i int) task.Task { return rows[i] })
		run(t, v)
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		v := openSQLite(t)
		write(t, v, len(rows), func(i int) task.Task { return rows[i] })
		run(t, v)
	})
}

func openMySQL(t testing.TB) Views {
	t.Helper()
	return Views{worldtest.NewStore(t, "test", store.Options{}).Store}
}

func openSQLite(t testing.TB) Views {
	t.Helper()
	return Views{worldtest.NewSQLite(t, "test").Store}
}

func exec(v Views, query string, args ...any) error {
	_, err := v.Store.DB().ExecContext(context.Background(), query, args...)
	return err
}

// value returns the first of two results, and fails the test on an error.
func value[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		pipelinetest.Must(t, err)
		return v
	}
}

// write inserts rows in any state.
func write(t testing.TB, v Views, n int, row func(i int) task.Task) {
	t.Helper()
	const chunk = 1000
	for from := 0; from < n; from += chunk {
		args := make([]any, 0, 13*chunk)
		for i := from; i < min(n, from+chunk); i++ {
			r := row(i)
			var finished any
			if !r.FinishedAt.IsZero() {
				finished = r.FinishedAt.UnixMilli()
			}
			args = append(args, r.ID[:], r.Kind, r.Owner, r.Queue, int8(r.State), r.DueAt.UnixMilli(), r.RunAt.UnixMilli(),
				"{}", r.LastError, r.CreatedAt.UnixMilli(), r.UpdatedAt.UnixMilli(), finished, r.Ran)
		}
		pipelinetest.Must(t, exec(v, "INSERT INTO duetime_tasks (id, kind, owner, queue, state, due_at, run_at, payload, last_error,"+
			" created_at, updated_at, finished_at, ran) VALUES "+strings.Repeat(",(?,?,?,?,?,?,?,?,?,?,?,?,?)", len(args)/13)[1:], args...))
	}
}

// archive moves what ended before a moment to the table of ended tasks.
func archive(t testing.TB, v Views, before time.Time) {
	t.Helper()
	for more := true; more; {
		var err error
		_, more, err = v.Store.Archive(t.Context(), before, 1000)
		pipelinetest.Must(t, err)
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

// statement is a statement for EXPLAIN.
type statement struct {
	text string
	args []any
}

// plan is a line of EXPLAIN with the table that it is about, with the columns that both MySQL and MariaDB have.
type plan struct {
	Table sql.NullString `db:"table"`
	Type  sql.NullString `db:"type"`
	Key   sql.NullString `db:"key"`
	Extra sql.NullString `db:"Extra"`
}

// explained returns the lines of EXPLAIN that are about our tables.
func explained(t *testing.T, v Views, of statement) []plan {
	t.Helper()
	var plans []plan
	pipelinetest.Must(t, v.Store.DB().Unsafe().SelectContext(t.Context(), &plans, "EXPLAIN FORMAT=TRADITIONAL "+of.text, of.args...))
	return slices.DeleteFunc(plans, func(p plan) bool { return !strings.HasPrefix(p.Table.String, "duetime_") })
}

// counting counts nine spans by an index.
func counting(d store.Dialect, order indexOrder) statement {
	spans := spansOf(t0, time.Minute, 9)
	text, args := order.countSQL(d, spans, []int{0, 1, 2, 3, 4, 5, 6, 7, 8}, 100)
	return statement{text, args}
}

// sampling reads ten of 100 counted entries of each of nine spans.
func sampling(d store.Dialect, order indexOrder, list string) statement {
	spans, counts, rows := spansOf(t0, time.Minute, 9), make([]counted, 9), make([]int64, 9)
	for i := range counts {
		counts[i], rows[i] = counted{entries: 100, last: spans[i].to - 1}, 10
	}
	text, args := order.sampleSQL(d, spans, counts, rows, list)
	return statement{text, args}
}

// viewStatement is a statement of a view, and the index that it reads.
type viewStatement struct {
	of    statement
	index string
}

func viewStatements(d store.Dialect) map[string]viewStatement {
	const due, updated, actor = "duetime_tasks_due", "duetime_tasks_updated", "duetime_history_actor"
	text, args := actsSQL(d, ActQuery{
		Actors: []string{"ann@host", "bob@host"}, From: t0, After: ActCursor{At: t0.Add(time.Hour), Seq: 7}, Limit: 100,
	})
	return map[string]viewStatement{
		"counts by run time":  {counting(d, byRunAt), due},
		"counts by change":    {counting(d, byChange), updated},
		"samples by run time": {sampling(d, byRunAt, "kind"), due},
		"samples by change":   {sampling(d, byChange, lagColumns), updated},
		"dead tasks":          {statement{deadSQL(d), []any{100}}, due},
		"operators":           {statement{operatorSQL(d), []any{"ann@host"}}, actor},
		"acts":                {statement{text, args}, actor},
	}
}

// What views read is a range of an index. Entries are counted in the index alone, samples are chosen there, nothing is sorted.
func TestViewPlans(t *testing.T) {
	t.Parallel()
	v, g := openMySQL(t), newGenerator()
	write(t, v, 3000, func(i int) task.Task {
		row := g.pending(t0.Add(time.Duration(i) * time.Second))
		if row.UpdatedAt = row.DueAt; i < 500 { // over an hour, not all at one moment
			row.State, row.FinishedAt, row.LastError = task.Dead, t0, "sick"
		}
		return row
	})
	var lines []protocol.Event
	for i := range 3000 {
		lines = append(lines, protocol.Event{
			At: t0.Add(time.Duration(i) * time.Second), Task: task.NewID(), Name: protocol.EventMoved,
			Actor: []string{"service", "worker", "ann@host", "bob@host"}[min(3, i%10)],
		})
	}
	pipelinetest.Must(t, v.Store.Record(t.Context(), nil, lines))
	pipelinetest.Must(t, exec(v, "ANALYZE TABLE duetime_tasks, duetime_history"))
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
		for _, p := range explained(t, v, view.of) {
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
		counts := make([]counted, len(c.entries))
		for i, n := range c.entries {
			counts[i].entries = n
		}
		if got := sampleRows(counts, func(i int) float64 { return c.whole[i] }, c.budget); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// SQLite reads the same ranges, and looks rows up by their ids alone.
func TestViewPlansOfSQLite(t *testing.T) {
	t.Parallel()
	v := openSQLite(t)
	for name, view := range viewStatements(store.SQLite) {
		var plans []struct{ Detail string }
		pipelinetest.Must(t, v.Store.DB().Unsafe().SelectContext(t.Context(), &plans, "EXPLAIN QUERY PLAN "+view.of.text, view.of.args...))
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
