package duetimetest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/migrations"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// DB is a *sql.DB or a *sqlx.DB on the schema that holds duetime's tables. A handle from a duetime or embedded client's
// DB method also guards its transactions as in production: after a deadlock, it refuses the further statements of a
// handler that ignored the error.
type DB interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
	Driver() driver.Driver
}

const (
	shards   = 16
	callTime = time.Minute // bounds each call of this package, so that a lock in the test itself is not waited for forever
)

// inDeadline returns the context of a call. Unlike the test's own context it can be used in a cleanup.
func inDeadline(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(t.Context()), callTime)
}

// opened returns the pipeline's statements on the test's handle.
func opened(t testing.TB, db DB) tables {
	t.Helper()
	var plain *sql.DB
	switch h := db.(type) {
	case *sqlx.DB:
		plain = h.DB
	case *sql.DB:
		plain = h
	default:
		t.Fatalf("duetimetest: database is a %T, want a *sql.DB or a *sqlx.DB", db)
	}
	if isMySQL(t, plain) {
		return tables{store.On(sqlx.NewDb(plain, "mysql"), store.MySQL)}
	}
	return tables{store.On(sqlx.NewDb(plain, "sqlite3"), store.SQLite)}
}

// isMySQL asks the server, because the driver may be wrapped.
func isMySQL(t testing.TB, db *sql.DB) bool {
	t.Helper()
	ctx, cancel := inDeadline(t)
	defer cancel()
	var version string
	errMySQL := db.QueryRowContext(ctx, "SELECT @@version_comment").Scan(&version)
	if errMySQL == nil {
		return true
	}
	if err := db.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&version); err != nil {
		t.Fatalf("duetimetest: database is neither MySQL (%v) nor SQLite (%v)", errMySQL, err)
	}
	return false
}

// tables is the store on the test's handle, whose sessions may have any isolation level.
type tables struct{ *store.Store }

// Begin starts a transaction at READ COMMITTED, as the pipeline needs it.
func (s tables) Begin(ctx context.Context) (*sqlx.Tx, error) {
	opts := &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	if s.Dialect() == store.SQLite {
		opts = nil // SQLite has only one level
	}
	tx, err := s.DB().BeginTxx(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("begin transaction: %w", err)
	}
	return tx, nil
}

// Migrate creates duetime's tables, or brings them up to date. It fails the test if the schema belongs to a namespace
// other than duetime.
func Migrate(t testing.TB, db DB) {
	t.Helper()
	ctx, cancel := inDeadline(t)
	defer cancel()
	if err := opened(t, db).Migrate(ctx, migrations.Files, "duetime", shards); err != nil {
		t.Fatalf("duetimetest.Migrate: %v", err)
	}
}

// Client returns a client that schedules in the database only: it has no index and no Kafka, and nothing fires the tasks.
// It is closed after the test.
func Client(t testing.TB, db DB, opts ...Option) *schedule.Client {
	t.Helper()
	o := chosen(opts)
	if o.clock == nil {
		o.clock = NewClock(t, db)
	}
	c := client(t, o.clock.store, o)
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func client(t testing.TB, s *ahead, o options) *schedule.Client {
	t.Helper()
	cfg := schedule.Config{BeforeSchedule: o.before, InChange: o.in, OnChange: o.on}
	if o.mux != nil {
		r, err := engine.NewReader(workerConfig(t, o.mux, o), o.mux, s)
		if err != nil {
			t.Fatalf("duetimetest.Client: %v", err)
		}
		t.Cleanup(r.Close)
		cfg.Settler = r
	}
	c, err := schedule.New(cfg, s, nowhere{}, nowhere{})
	if err != nil {
		t.Fatalf("duetimetest.Client: %v", err)
	}
	return c
}

// nowhere is an index and a stream that store nothing: Fire and the Require functions read the rows.
type nowhere struct{}

func (nowhere) Put(context.Context, []task.Task) error                  { return nil }
func (nowhere) Offer([]task.Task)                                       {}
func (nowhere) Compensate(context.Context, protocol.Compensation) error { return nil }
func (nowhere) Bury(context.Context, []protocol.DeadLetter) error       { return nil }

func (nowhere) OwnerPage(context.Context, int, string, string, string, int) ([]protocol.Entry, string, string, error) {
	return nil, "", "", nil
}
