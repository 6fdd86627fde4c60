package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
)

// Two workers lock the same 20 ids at once: the second gets exactly the rows that the first does not hold. One table is
// so small that the optimizer would prefer to read all of it, one is large.
func TestLockFreeTakesWhatIsFree(t *testing.T) {
	t.Parallel()
	for _, size := range []int{20, 20_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			s, _ := openMySQLStore(t, store.Options{})
			rows := filled(t, s, size)[:20]
			one, two := begin(t, s), begin(t, s)
			held, _, err := s.LockFree(t.Context(), one, ids(rows[5:15]))
			must(t, err)
			free, now, err := s.LockFree(t.Context(), two, ids(rows))
			must(t, err)
			if d := cmp.Diff(ids(rows[5:15]), ids(held)); d != "" {
				t.Errorf("first (-want +got):\n%s", d)
			}
			want := append(ids(rows[:5]), ids(rows[15:])...)
			if d := cmp.Diff(want, ids(free)); d != "" {
				t.Errorf("second (-want +got):\n%s", d)
			}
			// Both mark their rows done, without waiting for each other.
			must(t, worldtest.Finish(t.Context(), s, one, held, now))
			must(t, worldtest.Finish(t.Context(), s, two, free, now))
			must(t, one.Commit())
			must(t, two.Commit())
		})
	}
}

// filled writes n rows; the first 20 of them have the latest run times.
func filled(t testing.TB, s *store.Store, n int) []task.Task {
	t.Helper()
	var all []task.Task
	for part := range slices.Chunk(newTasks(t, n), task.MaxPerCall) {
		all = append(all, inserted(t, s, part...)...)
	}
	must(t, exec(s.DB(), "ANALYZE TABLE duetime_tasks"))
	return all
}

func TestLockWaitsAndGivesUp(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{LockWait: time.Second})
	rows := inserted(t, s, newTasks(t, 3)...)
	holder := begin(t, s)
	value[[]task.Task](t)(s.Lock(t.Context(), holder, ids(rows[1:2])))
	if _, err := s.Lock(t.Context(), begin(t, s), ids(rows)); number(err) != 1205 || !s.Retryable(err) || s.Unavailable(err) {
		t.Errorf("Lock of a held row: %v, want a retryable lock wait timeout", err)
	}
}

// Two transactions schedule the same key at once: the second one is told to begin anew, and gets the first one's row then.
func TestKeyTakenConcurrently(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{LockWait: 20 * time.Second})
	one, two := begin(t, s), begin(t, s)
	mine := newTask(t, "ann", 0, task.Key("meal"))
	value[[]task.Task](t)(s.Insert(t.Context(), one, []task.Task{mine}))
	asked := []task.Task{newTask(t, "bob", 0), newTask(t, "ann", time.Hour, task.Key("meal"))}
	got := make(chan error, 1)
	go func() {
		_, err := s.Insert(t.Context(), two, asked)
		got <- err
	}()
	waitForLockWait(t, s)
	must(t, one.Commit())
	if err := <-got; !errors.Is(err, store.ErrConflict) || !s.Retryable(err) {
		t.Errorf("second: %v, want a retryable ErrConflict", err)
	}
	must(t, two.Rollback())
	two = begin(t, s)
	rows := value[[]task.Task](t)(s.Insert(t.Context(), two, asked))
	must(t, two.Commit())
	if len(rows) != 2 || rows[1].ID != mine.ID || rows[0].Owner != "bob" {
		t.Errorf("once more: %v, want its own row and the first's", rows)
	}
}

// Many transactions schedule overlapping keys in all orders: all errors are retryable, and each key has one row.
func TestKeysFromManyConnections(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{LockWait: 20 * time.Second})
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for round := range 10 {
				tasks := make([]task.Task, 5)
				for i := range tasks {
					tasks[i] = newTask(t, "ann", 0, task.Once(fmt.Sprint((worker*3+i*7+round)%11)))
				}
				if err := insertRetrying(t.Context(), s, tasks); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(value[[]task.Task](t)(s.List(t.Context(), store.Filter{}))); n != 11 {
		t.Errorf("%d rows, want one per key, 11", n)
	}
}

func insertRetrying(ctx context.Context, s *store.Store, tasks []task.Task) error {
	for {
		tx, err := s.Begin(ctx)
		if err != nil {
			return err
		}
		rows, err := s.Insert(ctx, tx, tasks)
		if err == nil {
			for i := range rows {
				if rows[i].DedupKey != tasks[i].DedupKey {
					err = fmt.Errorf("row of key %s for key %s", rows[i].DedupKey, tasks[i].DedupKey)
				}
			}
		}
		if err == nil {
			return tx.Commit()
		}
		_ = tx.Rollback()
		if !s.Retryable(err) {
			return err
		}
	}
}

// A caller's own connection may count matched rows instead of changed ones.
func TestInsertOnCallersConnection(t *testing.T) {
	t.Parallel()
	s, dsn := openMySQLStore(t, store.Options{})
	first := inserted(t, s, newTask(t, "ann", 0, task.Key("meal")))[0]
	db := value[*sqlx.DB](t)(sqlx.Open("mysql", dsn+"?clientFoundRows=true"))
	t.Cleanup(func() { must(t, db.Close()) })
	tx := value[*sqlx.Tx](t)(db.BeginTxx(t.Context(), nil))
	rows := value[[]task.Task](t)(s.Insert(t.Context(), tx, []task.Task{newTask(t, "bob", 0), newTask(t, "ann", 0, task.Key("meal"))}))
	must(t, tx.Commit())
	if rows[1].ID != first.ID {
		t.Errorf("Insert answered %s, want the row that stood before, %s", rows[1].ID, first.ID)
	}
}

// The SQL of a service in another language must compute the same shard.
func TestShardEqualsSQL(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{})
	for _, owner := range []string{"a", "player-7", "Zoë", "猫", "🐈‍⬛", "ÄÖÜ ß", "O'Brien\\", strings.Repeat("é", 32)} {
		row := inserted(t, s, newTask(t, owner, 0))[0]
		for _, n := range []int{1, 7, 16, 1024} {
			var got int
			must(t, s.DB().GetContext(t.Context(), &got, "SELECT CRC32(owner) MOD ? FROM duetime_tasks WHERE id = ?", n, row.ID[:]))
			if want := protocol.Shard(owner, n); got != want {
				t.Errorf("%q of %d shards: SQL says %d, Go %d", owner, n, got, want)
			}
		}
	}
}

// Statements that lock or page must use the index for which they are written.
func TestPlans(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{})
	rows := filled(t, s, 3000)
	for name, c := range map[string]struct {
		key string
		run func(q sqlx.ExtContext) error
	}{
		"lock free": {"PRIMARY", func(q sqlx.ExtContext) error {
			_, _, err := s.LockFree(t.Context(), q, ids(rows[:100]))
			return err
		}},
		"lock": {"PRIMARY", func(q sqlx.ExtContext) error {
			_, err := s.Lock(t.Context(), q, ids(rows[:100]))
			return err
		}},
		"finish": {"PRIMARY", func(q sqlx.ExtContext) error { return worldtest.Finish(t.Context(), s, q, twoVersions(rows[:100]), t0) }},
		"save":   {"PRIMARY", func(q sqlx.ExtContext) error { return worldtest.Save(t.Context(), s, q, twoVersions(rows[:100])...) }},
		"owner": {"duetime_tasks_owner", func(q sqlx.ExtContext) error {
			_, err := s.ListOwner(t.Context(), q, "owner-1", "")
			return err
		}},
	} {
		e := &explainer{DB: s.DB()}
		if err := c.run(e); err != nil && !errors.Is(err, store.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
		e.check(t, name, c.key)
	}
	for name, key := range map[string]string{"pending": "duetime_tasks_due", "changed": "duetime_tasks_updated"} {
		text, args := store.PageSQL(name == "pending", t0.Add(10*time.Second), t0.Add(time.Hour),
			protocol.Cursor{At: t0.Add(20 * time.Second), ID: rows[20].ID}, 100)
		e := &explainer{DB: s.DB()}
		must(t, exec(e, "SELECT *"+text, args...))
		e.check(t, name, key)
	}
}

// A page without some queues is counted in the index, which has all needed columns; then its rows are read.
func TestPlanOfAPageWithoutQueues(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{})
	rows := filled(t, s, 3000)
	at := func(n int) protocol.Cursor {
		return protocol.Cursor{At: t0.Add(time.Duration(n) * time.Second), ID: rows[n].ID}
	}
	for _, last := range []protocol.Cursor{{}, at(2600)} {
		end, endArgs, page, pageArgs := store.ExceptSQL([]string{"a", "b"}, t0.Add(10*time.Second), t0.Add(time.Hour),
			at(2500), last, 100) // in the middle, where beginning at the cursor saves work
		e := &explainer{DB: s.DB()}
		must(t, exec(e, end, endArgs...))
		e.check(t, "end", "duetime_tasks_due")
		e.plans = e.plans[:0]
		must(t, exec(e, page, pageArgs...))
		checkPage(t, e)
	}
}

// checkPage checks that a page is taken from the index alone, and its rows are read by their ids.
func checkPage(t *testing.T, e *explainer) {
	t.Helper()
	var steps []string
	for _, p := range e.plans {
		steps = append(steps, strings.Join([]string{p.Select, p.Type.String, p.Key.String}, " "))
		if p.Select == "DERIVED" && !strings.Contains(p.Extra.String, "Using index") {
			t.Errorf("%v looks up rows, want the index alone", p)
		}
	}
	if d := cmp.Diff([]string{"PRIMARY ALL ", "PRIMARY eq_ref PRIMARY", "DERIVED range duetime_tasks_due"}, steps); d != "" {
		t.Errorf("plan (-want +got):\n%s", d)
	}
}

// An owner's tasks are locked by id, in the usual order. Neither other rows nor the owner's index are locked.
func TestOwnerIsLockedInTurn(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{})
	filled(t, s, 3000)
	mine := newTasks(t, 100)
	for i := range mine {
		mine[i].Owner = "ann"
		mine[i].RunAt = t0.Add(-time.Duration(i) * time.Minute)
	}
	inserted(t, s, mine...)

	e := &explainer{DB: s.DB()}
	_, _, err := s.LockOwner(t.Context(), e, "ann", "")
	must(t, err)
	var steps []string
	for _, p := range e.plans {
		steps = append(steps, strings.Join([]string{p.Select, p.Type.String, p.Key.String}, " "))
	}
	if d := cmp.Diff([]string{"PRIMARY ALL ", "PRIMARY eq_ref PRIMARY", "DERIVED ALL ", "DERIVED ref duetime_tasks_owner"}, steps); d != "" {
		t.Errorf("plan: what was found first, then its rows by id (-want +got):\n%s", d)
	}

	tx := begin(t, s)
	rows, _, err := s.LockOwner(t.Context(), tx, "ann", "")
	must(t, err)
	if d := cmp.Diff(ids(mine), ids(rows)); d != "" { // ids grow with time
		t.Errorf("the owner's tasks in id order (-want +got):\n%s", d)
	}
	if locked := pipelinetest.RowLocks(t, tx); locked != len(mine) {
		t.Errorf("%d locks, want %d", locked, len(mine))
	}
}

func twoVersions(rows []task.Task) []task.Task {
	rows = slices.Clone(rows)
	for i := range rows {
		rows[i].Version = int64(2 + i%2)
		rows[i].RunAt = rows[i].RunAt.Add(time.Duration(i) * time.Second)
	}
	return rows
}

// An owner of many tasks is blocked in pages: each reads few rows.
func TestLockOwnerReadsOnePage(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{MaxOpen: 1}) // whose session counts all
	crowdOf(t, s, "ann", 20_000)
	before := rowsRead(t, s)
	tx := begin(t, s)
	rows, _, err := s.LockOwner(t.Context(), tx, "ann", "")
	must(t, err)
	must(t, tx.Rollback())
	if n := rowsRead(t, s) - before; len(rows) != task.MaxPerCall+1 || n > 3*len(rows) {
		t.Errorf("locked %d rows, and read %d", len(rows), n)
	}
}

// plan is one line of EXPLAIN, with the columns that both MySQL and MariaDB have.
type plan struct {
	Select string         `db:"select_type"`
	Type   sql.NullString `db:"type"`
	Key    sql.NullString `db:"key"`
	Extra  sql.NullString `db:"Extra"`
}

// explainer runs EXPLAIN for each statement before the statement.
type explainer struct {
	*sqlx.DB
	plans []plan
}

func (e *explainer) explain(ctx context.Context, query string, args []any) {
	if !strings.Contains(query, "duetime_tasks") {
		return
	}
	var p []plan
	if err := e.Unsafe().SelectContext(ctx, &p, "EXPLAIN FORMAT=TRADITIONAL "+query, args...); err != nil {
		panic(err)
	}
	e.plans = append(e.plans, p...)
}

func (e *explainer) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	e.explain(ctx, query, args)
	return e.DB.ExecContext(ctx, query, args...)
}

func (e *explainer) QueryxContext(ctx context.Context, query string, args ...any) (*sqlx.Rows, error) {
	e.explain(ctx, query, args)
	return e.DB.QueryxContext(ctx, query, args...)
}

func (e *explainer) check(t *testing.T, name, key string) {
	t.Helper()
	if len(e.plans) == 0 {
		t.Errorf("%s: nothing explained", name)
	}
	for _, p := range e.plans {
		if p.Key.String != key || p.Type.String != "range" && p.Type.String != "ref" || strings.Contains(p.Extra.String, "filesort") {
			t.Errorf("%s: plan %v, want a range of %s without sorting", name, p, key)
		}
	}
}
