package worldtest

import (
	"cmp"
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	_ "modernc.org/sqlite" // for OpenSQLite

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/migrations"
	"github.com/duetime/duetime/pkg/task"
)

// Shards is how many shards the layout of a new store has.
const Shards = 4

// Store is a store, and what tests ask of it.
type Store struct {
	*store.Store
	DSN string // the path of a file

	t testing.TB
}

// NewStore opens a store on a schema of its own, whose deployment has the namespace. Unless o says otherwise, its transactions may
// wait for minutes: on a slow machine a test holds one for long.
func NewStore(t testing.TB, namespace string, o store.Options) *Store {
	t.Helper()
	o.WaitTimeout = cmp.Or(o.WaitTimeout, 10*time.Minute)
	return OpenStore(t, Schema(t), o).claim(namespace)
}

// NewSQLite is NewStore on a file.
func NewSQLite(t testing.TB, namespace string) *Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "duetime.db")
	s, err := store.OpenSQLite(path)
	pipelinetest.Must(t, err)
	return own(t, s, path).claim(namespace)
}

// OpenStore opens a store as it is. It is closed after the test, if the test has not closed it.
func OpenStore(t testing.TB, dsn string, o store.Options) *Store {
	t.Helper()
	s, err := store.Open(dsn, o)
	pipelinetest.Must(t, err)
	return own(t, s, dsn)
}

func own(t testing.TB, s *store.Store, dsn string) *Store {
	t.Helper()
	t.Cleanup(func() { pipelinetest.Must(t, s.Close()) })
	return &Store{s, dsn, t}
}

// claim migrates the schema, and makes it the deployment's.
func (s *Store) claim(namespace string) *Store {
	s.t.Helper()
	pipelinetest.Must(s.t, s.Migrate(s.t.Context(), migrations.Files, namespace, Shards))
	return s
}

// Exec executes a statement, also in a Cleanup function.
func (s *Store) Exec(query string, args ...any) {
	s.t.Helper()
	_, err := s.DB().ExecContext(s.ctx(), query, args...)
	pipelinetest.Must(s.t, err)
}

// Number returns the one number that the query selects.
func (s *Store) Number(query string, args ...any) (n int) {
	s.t.Helper()
	pipelinetest.Must(s.t, s.DB().GetContext(s.ctx(), &n, query, args...))
	return n
}

// Row returns the task's row, which must be there.
func (s *Store) Row(id task.ID) task.Task {
	s.t.Helper()
	rows, err := s.Get(s.ctx(), nil, []task.ID{id})
	pipelinetest.Must(s.t, err)
	if len(rows) != 1 {
		s.t.Fatalf("task %s: got %d rows", id, len(rows))
	}
	return rows[0]
}

// InTx commits what fn does.
func (s *Store) InTx(fn func(ctx context.Context, tx *sqlx.Tx) error) {
	s.t.Helper()
	pipelinetest.Must(s.t, s.TryTx(fn))
}

// TryTx commits what fn does unless fn fails, and returns the error.
func (s *Store) TryTx(fn func(ctx context.Context, tx *sqlx.Tx) error) error {
	tx, err := s.Begin(s.ctx())
	if err != nil {
		return err
	}
	if err := fn(s.ctx(), tx); err != nil {
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}

func (s *Store) ctx() context.Context { return context.WithoutCancel(s.t.Context()) }
