package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// pets creates a table with pets 1 to 200; the handlers compete for pet 1.
func pets(t *testing.T, s *store.Store) {
	t.Helper()
	must(t, exec(s.DB(), "CREATE TABLE pets (id INT PRIMARY KEY, meals INT NOT NULL DEFAULT 0)"))
	must(t, exec(s.DB(), "INSERT INTO pets (id) SELECT seq FROM "+pipelinetest.Numbers(1, 200)))
}

func meals(t *testing.T, s *store.Store) (n int) {
	t.Helper()
	must(t, s.DB().GetContext(t.Context(), &n, "SELECT COALESCE(SUM(meals), 0) FROM pets"))
	return n
}

// loseByDeadlock makes tx the victim of a deadlock: it holds pet 1, a heavier transaction holds pet 2, and each waits for
// the other's. lose returns the error, which the caller ignores.
func loseByDeadlock(t *testing.T, s *store.Store, tx *sqlx.Tx, lose func() error) error {
	t.Helper()
	must(t, exec(tx, "UPDATE pets SET meals = meals + 1 WHERE id = 1"))
	heavy := begin(t, s)
	must(t, exec(heavy, "UPDATE pets SET meals = meals + 0, id = id WHERE id > 1"))
	must(t, exec(heavy, "DELETE FROM pets WHERE id > 100"))
	crossed := make(chan error, 1)
	go func() { crossed <- exec(heavy, "UPDATE pets SET meals = meals WHERE id = 1") }()
	waitForLockWait(t, s)
	err := lose()
	if other := <-crossed; other != nil {
		t.Fatalf("the heavier transaction was the victim: %v", other)
	}
	must(t, heavy.Rollback())
	return err
}

// waitForLockWait returns when a transaction of the server waits for a lock in this schema.
func waitForLockWait(t *testing.T, s *store.Store) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if pipelinetest.LockWaits(t, s.DB()) > 0 {
			return
		}
	}
	t.Fatal("nobody waits for a lock")
}

func drain(r *sqlx.Rows, err error) error {
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	for r.Next() {
		continue
	}
	return r.Err()
}

// lockThree fails while its rows are read. With a single row by key, the error would come before the answer begins.
const lockThree = "SELECT id FROM pets WHERE id <= 3 ORDER BY id FOR UPDATE"

// A handler that ignores the error of a lost transaction must not commit its later statements.
func TestSwallowedLossPoisons(t *testing.T) {
	t.Parallel()
	ways := map[string]func(ctx context.Context, tx *sqlx.Tx) error{
		"exec": func(_ context.Context, tx *sqlx.Tx) error {
			return exec(tx, "UPDATE pets SET meals = meals + 1 WHERE id = ?", 2)
		},
		"rows.Next":  func(ctx context.Context, tx *sqlx.Tx) error { return drain(tx.QueryxContext(ctx, lockThree)) },
		"rows.Close": closeUnread,
		"prepared exec": func(ctx context.Context, tx *sqlx.Tx) error {
			st, err := tx.PreparexContext(ctx, "UPDATE pets SET meals = meals + 1 WHERE id = ?")
			if err != nil {
				return err
			}
			defer func() { _ = st.Close() }()
			_, err = st.ExecContext(ctx, 2)
			return err
		},
		"prepared rows.Next": func(ctx context.Context, tx *sqlx.Tx) error {
			st, err := tx.PreparexContext(ctx, lockThree)
			if err != nil {
				return err
			}
			defer func() { _ = st.Close() }()
			return drain(st.QueryxContext(ctx))
		},
	}
	for name, lose := range ways {
		for _, chain := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, chain %v", name, chain), func(t *testing.T) {
				t.Parallel()
				s, _ := openMySQLStore(t, store.Options{LockWait: 90 * time.Second, Chain: chain})
				pets(t, s)
				inTx(t, s, func(context.Context, *sqlx.Tx) {}) // the next transaction may be chained to this one
				tx := begin(t, s)
				err := loseByDeadlock(t, s, tx, func() error { return lose(t.Context(), tx) })
				if number(err) != 1213 {
					t.Fatalf("got %v, want a deadlock", err)
				}
				checkPoisoned(t, s, tx)
			})
		}
	}
}

// closeUnread leaves all rows unread; only Close, which drains them, returns the error.
func closeUnread(ctx context.Context, tx *sqlx.Tx) error {
	r, err := tx.QueryxContext(ctx, lockThree)
	if err != nil {
		return err
	}
	return r.Close() //nolint:sqlclosecheck // the test is about the error of Close
}

func number(err error) uint16 {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number
	}
	return 0
}

func prepare(ctx context.Context, tx *sqlx.Tx, query string) error {
	st, err := tx.PreparexContext(ctx, query)
	if err != nil {
		return err
	}
	return st.Close() //nolint:sqlclosecheck // not used
}

// checkPoisoned goes on with a lost transaction, as a careless handler does.
func checkPoisoned(t *testing.T, s *store.Store, tx *sqlx.Tx) {
	t.Helper()
	ctx := t.Context()
	for name, err := range map[string]error{
		"exec":      exec(tx, "UPDATE pets SET meals = 1000 WHERE id = 3"),
		"query":     drain(tx.QueryxContext(ctx, "SELECT id FROM pets")),
		"prepare":   prepare(ctx, tx, "SELECT 1"),
		"savepoint": exec(tx, "ROLLBACK TO SAVEPOINT a"),
		"commit":    tx.Commit(),
	} {
		if !errors.Is(err, store.ErrPoisoned) || !s.Retryable(err) || s.Ambiguous(err) {
			t.Errorf("%s: %v, want ErrPoisoned, retryable, not ambiguous", name, err)
		}
	}
	if n := meals(t, s); n != 0 {
		t.Errorf("%d meals of a lost transaction are in the table", n)
	}
	next := begin(t, s)
	must(t, exec(next, "UPDATE pets SET meals = meals + 1 WHERE id = 3"))
	must(t, next.Commit())
	if n := meals(t, s); n != 1 {
		t.Errorf("%d meals after a transaction that went well, want 1", n)
	}
}

// Without the guard, the same handler commits the second half of its work, and COMMIT answers OK.
func TestWithoutGuardHalfIsCommitted(t *testing.T) {
	t.Parallel()
	s, dsn := openMySQLStore(t, store.Options{LockWait: 90 * time.Second})
	pets(t, s)
	bare := value[*sqlx.DB](t)(sqlx.Open("mysql", dsn))
	t.Cleanup(func() { must(t, bare.Close()) })
	tx := value[*sqlx.Tx](t)(bare.BeginTxx(t.Context(), nil))
	err := loseByDeadlock(t, s, tx, func() error { return exec(tx, "UPDATE pets SET meals = meals + 1 WHERE id = 2") })
	if number(err) != 1213 {
		t.Fatalf("got %v, want a deadlock", err)
	}
	must(t, exec(tx, "UPDATE pets SET meals = meals + 1 WHERE id = 3"))
	must(t, tx.Commit())
	if n := meals(t, s); n != 1 {
		t.Errorf("%d meals, want 1: the first half lost, the second committed", n)
	}
}

func TestLockWaitPoisons(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{LockWait: time.Second})
	pets(t, s)
	holder := begin(t, s)
	must(t, exec(holder, "UPDATE pets SET meals = 5 WHERE id = 2"))
	tx := begin(t, s)
	must(t, exec(tx, "UPDATE pets SET meals = 5 WHERE id = 1"))
	if err := exec(tx, "UPDATE pets SET meals = 5 WHERE id = 2"); number(err) != 1205 || !s.Retryable(err) {
		t.Fatalf("got %v, want a retryable lock wait timeout", err)
	}
	must(t, holder.Rollback())
	checkPoisoned(t, s, tx)
}

// Errors that don't end the transaction don't make the guard refuse its statements.
func TestOrdinaryErrorsDoNotPoison(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{})
	pets(t, s)
	tx := begin(t, s)
	must(t, exec(tx, "UPDATE pets SET meals = 1 WHERE id = 1"))
	if err := exec(tx, "INSERT INTO pets (id) VALUES (1)"); number(err) != 1062 || s.Retryable(err) {
		t.Errorf("got %v, want a duplicate key, not retryable", err)
	}
	if err := exec(tx, "SELEC 1"); number(err) != 1064 {
		t.Errorf("got %v, want a syntax error", err)
	}
	must(t, tx.Commit())
	if n := meals(t, s); n != 1 {
		t.Errorf("%d meals, want 1", n)
	}
}

// One statement may take all of a handler's time limit of half a minute.
func TestLongStatementIsWaitedFor(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{Longest: 30 * time.Second})
	tx := begin(t, s)
	must(t, exec(tx, "DO SLEEP(21)"))
	must(t, tx.Commit())
}

// A connection that breaks before COMMIT has certainly not committed; after one that breaks during COMMIT the outcome is
// unknown.
func TestBrokenConnection(t *testing.T) {
	t.Parallel()
	s, dsn := openMySQLStore(t, store.Options{})
	pets(t, s)
	cfg := value[*mysql.Config](t)(mysql.ParseDSN(dsn))
	open := func(t *testing.T) (*sqlx.Tx, *pipelinetest.ToxicProxy) {
		proxy := pipelinetest.Proxy(t, cfg.Addr)
		tx := begin(t, opened(t, strings.Replace(dsn, cfg.Addr, proxy.Addr(), 1)+"?readTimeout=5s", store.Options{}))
		must(t, exec(tx, "UPDATE pets SET meals = 1 WHERE id = 1"))
		return tx, proxy
	}
	t.Run("before", func(t *testing.T) {
		tx, proxy := open(t)
		proxy.Cut()
		if err := exec(tx, "UPDATE pets SET meals = 2 WHERE id = 1"); !s.Unavailable(err) || !s.Retryable(err) {
			t.Errorf("statement: %v, want unavailable and retryable", err)
		}
		proxy.Heal()
		err := tx.Commit()
		if !errors.Is(err, store.ErrPoisoned) || s.Ambiguous(err) || !s.Retryable(err) {
			t.Errorf("COMMIT: %v, want ErrPoisoned, not ambiguous, retryable", err)
		}
	})
	t.Run("during", func(t *testing.T) {
		tx, proxy := open(t)
		proxy.CutDownstream()
		err := tx.Commit()
		if !s.Ambiguous(err) || s.Retryable(err) || !s.Unavailable(err) {
			t.Errorf("COMMIT: %v, want ambiguous, not retryable, unavailable", err)
		}
	})
	t.Run("context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		tx := value[*sqlx.Tx](t)(s.Begin(ctx))
		must(t, exec(tx, "UPDATE pets SET meals = 2 WHERE id = 2"))
		cancel()
		if err := tx.Commit(); err == nil || s.Ambiguous(err) || s.Retryable(err) {
			t.Errorf("COMMIT after its context ended: %v, want a definite error", err)
		}
	})
	t.Run("done", func(t *testing.T) {
		tx := begin(t, s)
		must(t, tx.Commit())
		if err := tx.Commit(); !errors.Is(err, sql.ErrTxDone) || s.Ambiguous(err) {
			t.Errorf("second COMMIT: %v, want ErrTxDone, not ambiguous", err)
		}
	})
}
