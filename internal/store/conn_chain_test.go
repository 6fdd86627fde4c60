package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/store"
)

// chained is a store of one connection, with a table of pets, and another store that sees what was committed.
func chained(t *testing.T) (s, other *store.Store) {
	t.Helper()
	s, dsn := openMySQLStore(t, store.Options{Chain: true, MaxOpen: 1})
	other = opened(t, dsn, store.Options{})
	pets(t, other)
	return s, other
}

// begun counts the BEGINs of the session that runs the statement.
func begun(t *testing.T, q sqlx.QueryerContext) (n int) {
	t.Helper()
	var name string
	must(t, q.QueryRowxContext(t.Context(), "SHOW SESSION STATUS LIKE 'Com_begin'").Scan(&name, &n))
	return n
}

func TestChainedTransactionsNeedOneBegin(t *testing.T) {
	t.Parallel()
	s, other := chained(t)
	first, last, began := 0, 0, time.Now()
	for i := range 5 {
		inTx(t, s, func(_ context.Context, tx *sqlx.Tx) {
			must(t, exec(tx, "UPDATE pets SET meals = meals + 1 WHERE id = 1"))
			last = begun(t, tx)
			if i == 0 {
				first = last
			}
		})
		if n := meals(t, other); n != i+1 {
			t.Errorf("%d meals after %d commits", n, i+1)
		}
	}
	if n := last - first; n > 0 && time.Since(began) < time.Second { // on a slower machine some transactions came too late for the chain
		t.Errorf("%d BEGINs after the first", n)
	}
}

// An autocommit statement commits, whatever the session did before.
func TestStatementsOutsideOfAChain(t *testing.T) {
	t.Parallel()
	s, other := chained(t)
	for i := range 3 {
		inTx(t, s, func(_ context.Context, tx *sqlx.Tx) {
			must(t, exec(tx, "UPDATE pets SET meals = meals + 1 WHERE id = 1"))
		})
		must(t, exec(s.DB(), "UPDATE pets SET meals = meals + 1 WHERE id = 2"))
		if n := meals(t, other); n != 2*(i+1) {
			t.Errorf("%d meals, want %d", n, 2*(i+1))
		}
		inTx(t, s, func(_ context.Context, tx *sqlx.Tx) { must(t, exec(tx, "UPDATE pets SET meals = meals + 0, id = id")) })
		if n := meals(t, s); n != 2*(i+1) {
			t.Errorf("%d meals seen from outside, want %d", n, 2*(i+1))
		}
		must(t, exec(other.DB(), "ALTER TABLE pets COMMENT 'nobody holds it'"))
	}
}

func TestRollbackInAChain(t *testing.T) {
	t.Parallel()
	s, other := chained(t)
	for range 3 {
		inTx(t, s, func(_ context.Context, tx *sqlx.Tx) { must(t, exec(tx, "UPDATE pets SET meals = 1 WHERE id = 1")) })
		tx := begin(t, s)
		must(t, exec(tx, "UPDATE pets SET meals = 9"))
		must(t, tx.Rollback())
		if n := meals(t, other); n != 1 {
			t.Errorf("%d meals after a rollback, want 1", n)
		}
	}
}
