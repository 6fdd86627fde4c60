package store_test

import (
	"context"
	"database/sql/driver"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// switched is a name that moves from one server to another. Existing connections stay where they are.
type switched struct {
	driver.Connector
	to *atomic.Pointer[driver.Connector]
}

func (s switched) Connect(ctx context.Context) (driver.Conn, error) {
	if to := s.to.Load(); to != nil {
		return (*to).Connect(ctx)
	}
	return s.Connector.Connect(ctx)
}

// setReadOnly sets a server read-only, as an orchestrator does with an old primary.
func setReadOnly(t *testing.T, dsn, on string) {
	t.Helper()
	admin := value[*sqlx.DB](t)(sqlx.Open("mysql", dsn))
	defer func() { _ = admin.Close() }()
	must(t, exec(admin, "SET GLOBAL read_only = "+on))
	if err := exec(admin, "SET GLOBAL super_read_only = "+on); err != nil && number(err) != 1193 {
		t.Fatal(err) // MariaDB has no such variable
	}
}

// After a switch-over, no read answers with the old primary's rows, and the new primary is found at once.
func TestOldPrimaryAnswersNothing(t *testing.T) {
	t.Parallel()
	was, is := pipelinetest.OwnMySQL(t), pipelinetest.OwnMySQL(t)
	old, promoted := was.NewSchema(t), is.NewSchema(t)
	var to atomic.Pointer[driver.Connector]
	s := value[*store.Store](t)(store.OpenThrough(old, store.Options{}, func(c driver.Connector) driver.Connector { return switched{c, &to} }))
	t.Cleanup(func() { must(t, s.Close()) })
	migrated(t, s)
	other := migrated(t, opened(t, promoted, store.Options{}))
	named := value[*store.Store](t)(store.OpenThrough(promoted, store.Options{}, func(c driver.Connector) driver.Connector {
		to.Store(&c)
		return c
	}))
	must(t, named.Close())
	there := to.Swap(nil)

	row := newTask(t, "ann", time.Hour)
	inserted(t, s, row)
	row = inserted(t, other, row)[0]
	moved := value[task.Task](t)(transition.Move(row, t0.Add(2*time.Hour), t0))
	inTx(t, other, func(ctx context.Context, tx *sqlx.Tx) { must(t, worldtest.Save(ctx, other, tx, moved)) })
	later := inserted(t, other, newTask(t, "bob", time.Hour))[0]
	value[int64](t)(other.TakeAbove(t.Context(), "daemon", 41))

	both := []task.ID{row.ID, later.ID}
	far := t0.Add(100 * 365 * 24 * time.Hour)
	versions := func(rows []task.Task, err error) (sum int64, _ error) {
		for _, r := range rows {
			sum += r.Version
		}
		return sum, err
	}
	inTrx := func(read func(ctx context.Context, tx *sqlx.Tx) ([]task.Task, error)) func(context.Context) (int64, error) {
		return func(ctx context.Context) (int64, error) {
			tx, err := s.Begin(ctx)
			if err != nil {
				return 0, err
			}
			defer func() { _ = tx.Rollback() }()
			return versions(read(ctx, tx))
		}
	}
	for name, c := range map[string]struct {
		want int64
		read func(ctx context.Context) (int64, error)
	}{
		"entries":       {3, func(ctx context.Context) (int64, error) { return versions(s.Entries(ctx, both)) }},
		"missing entry": {1, func(ctx context.Context) (int64, error) { return versions(s.Entries(ctx, both[1:])) }},
		"rows":          {3, func(ctx context.Context) (int64, error) { return versions(s.Get(ctx, nil, both)) }},
		"pending": {3, func(ctx context.Context) (int64, error) {
			return versions(s.Pending(ctx, t0, far, protocol.Cursor{}, 10))
		}},
		"pending but a queue's": {3, func(ctx context.Context) (int64, error) {
			rows, _, err := s.PendingExcept(ctx, []string{"other"}, t0, far, protocol.Cursor{}, 10)
			return versions(rows, err)
		}},
		"changed": {3, func(ctx context.Context) (int64, error) {
			return versions(s.Changed(ctx, time.Time{}, far, protocol.Cursor{}, 10))
		}},
		"owner's": {1, func(ctx context.Context) (int64, error) { return versions(s.ListOwner(ctx, nil, "bob", "")) }},
		"owner's page": {1, func(ctx context.Context) (int64, error) {
			return versions(s.ListOwnerPage(ctx, "bob", protocol.Cursor{}, 10))
		}},
		"epoch": {42, func(ctx context.Context) (int64, error) { return s.Current(ctx, "daemon") }},
		"clock": {1, func(ctx context.Context) (int64, error) {
			_, err := s.Clock(ctx)
			return 1, err
		}},
		"locked": {3, inTrx(func(ctx context.Context, tx *sqlx.Tx) ([]task.Task, error) { return s.Lock(ctx, tx, both) })},
		"locked free": {3, inTrx(func(ctx context.Context, tx *sqlx.Tx) ([]task.Task, error) {
			rows, _, err := s.LockFree(ctx, tx, both)
			return rows, err
		})},
		"missing locked free": {1, inTrx(func(ctx context.Context, tx *sqlx.Tx) ([]task.Task, error) {
			rows, _, err := s.LockFree(ctx, tx, both[1:])
			return rows, err
		})},
		"locked owner's": {1, inTrx(func(ctx context.Context, tx *sqlx.Tx) ([]task.Task, error) {
			rows, _, err := s.LockOwner(ctx, tx, "bob", "")
			return rows, err
		})},
		"free": {2, func(ctx context.Context) (int64, error) {
			got, _, _, err := s.ReadFree(ctx, row.ID)
			return got.Version, err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			setReadOnly(t, old, "OFF")
			to.Store(nil)
			if db := s.DB(); true { // several connections, all to the old primary
				var conns []*sqlx.Conn
				must(t, exec(db, "UPDATE duetime_layout SET shards = shards"))
				for range 4 {
					conns = append(conns, value[*sqlx.Conn](t)(db.Connx(t.Context())))
				}
				for _, c := range conns {
					must(t, c.Close())
				}
			}
			setReadOnly(t, old, "ON")
			to.Store(there)
			// If the old primary refuses to lock, the pool tries another connection.
			if got, err := c.read(t.Context()); err == nil && got != c.want || err != nil && (!s.Unavailable(err) || !s.Retryable(err)) {
				t.Fatalf("the old primary answers %d and %v, want unavailable and retryable", got, err)
			}
			for range 5 {
				if got := value[int64](t)(c.read(t.Context())); got != c.want {
					t.Errorf("read %d, want the promoted server's %d", got, c.want)
				}
			}
			s.RetirePool() // so that the next case connects to the old primary
		})
	}
}
