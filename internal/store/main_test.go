package store_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	_ "modernc.org/sqlite" // for OpenSQLite

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/migrations"
	"github.com/duetime/duetime/pkg/task"
)

func TestMain(m *testing.M) {
	os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines()))
}

const shards = 16

// t0 is an arbitrary moment.
var t0 = time.UnixMilli(1_800_000_000_000).UTC()

// openMySQLStore returns a migrated store in a schema of its own, and its DSN.
func openMySQLStore(t testing.TB, o store.Options) (*store.Store, string) {
	t.Helper()
	dsn := pipelinetest.MySQL(t).NewSchema(t)
	return migrated(t, opened(t, dsn, o)), dsn
}

func opened(t testing.TB, dsn string, o store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(dsn, o)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func openSQLite(t testing.TB) *store.Store {
	t.Helper()
	s, err := store.OpenSQLite(filepath.Join(t.TempDir(), "a b?c%.db"))
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return migrated(t, s)
}

func migrated(t testing.TB, s *store.Store) *store.Store {
	t.Helper()
	must(t, s.Migrate(t.Context(), migrations.Files, "test", shards))
	return s
}

// callers are parameters that a service may set in its DSN for its own statements.
const callers = "?clientFoundRows=true&multiStatements=true&parseTime=true&loc=Asia%2FShanghai&time_zone=%27%2B08%3A00%27"

// onBoth runs a case on MySQL, as services and as workers use it, also with a service's parameters, and on SQLite.
func onBoth(t *testing.T, run func(t *testing.T, s *store.Store)) {
	t.Helper()
	for name, o := range map[string]store.Options{"mysql": {}, "mysql in a chain": {Chain: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, lent(t, pipelinetest.MySQL(t), "", o))
		})
	}
	t.Run("mysql as a service has it", func(t *testing.T) {
		t.Parallel()
		run(t, lent(t, pipelinetest.MySQL(t), callers, store.Options{}))
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		run(t, openSQLite(t))
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// value returns the first of two results, and fails the test on an error.
func value[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		must(t, err)
		return v
	}
}

var kind = task.NewKind[int]("meal.done")

// newTask makes a row that is due this long after t0.
func newTask(t testing.TB, owner string, in time.Duration, opts ...task.Option) task.Task {
	t.Helper()
	row, err := kind.New(owner, 7, task.At(t0.Add(in)), opts...).Resolve(t0)
	must(t, err)
	return row
}

func newTasks(t testing.TB, n int) []task.Task {
	t.Helper()
	tasks := make([]task.Task, n)
	for i := range tasks {
		tasks[i] = newTask(t, fmt.Sprintf("owner-%d", i%7), time.Duration(i)*time.Second)
	}
	return tasks
}

// inTx runs fn in a transaction and commits it.
func inTx(t testing.TB, s *store.Store, fn func(ctx context.Context, tx *sqlx.Tx)) {
	t.Helper()
	tx := begin(t, s)
	fn(t.Context(), tx)
	must(t, tx.Commit())
}

// begin starts a transaction that ends at the latest with the test.
func begin(t testing.TB, s *store.Store) *sqlx.Tx {
	t.Helper()
	tx, err := s.Begin(t.Context())
	must(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// inserted writes rows and returns them as they are stored.
func inserted(t testing.TB, s *store.Store, tasks ...task.Task) []task.Task {
	t.Helper()
	var out []task.Task
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		var err error
		out, err = s.Insert(ctx, tx, tasks)
		must(t, err)
	})
	return out
}

var ids = protocol.IDs

func exec(q sqlx.ExecerContext, query string, args ...any) error {
	_, err := q.ExecContext(context.Background(), query, args...)
	return err
}
