package store_test

import (
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/store"
)

// The next transaction of a session doesn't see what the last one left in the session.
func TestSessionThatATransactionChangedIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	for name, chain := range map[string]bool{"plain": false, "in a chain": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := openMySQLStore(t, store.Options{MaxOpen: 1, Chain: chain})
			session := func(tx sqlx.Queryer) (id int64) {
				t.Helper()
				must(t, sqlx.Get(tx, &id, "SELECT CONNECTION_ID()"))
				return id
			}
			after := func(statement string) (same bool) {
				t.Helper()
				tx := begin(t, s)
				before := session(tx)
				must(t, exec(tx, statement))
				must(t, tx.Commit())
				tx = begin(t, s)
				defer func() { must(t, tx.Rollback()) }()
				return session(tx) == before
			}
			for _, statement := range []string{
				"SET SESSION wait_timeout = 1", " set @@session.time_zone = '+08:00'", "SET @x = 1",
				"CREATE TEMPORARY TABLE duetime_tasks (a INT)", "/* mine */ PREPARE p FROM 'SELECT 1'", "/*!50000 SET @x = 1 */",
				"/*M!100100 SET STATEMENT max_statement_time = 9 FOR*/ SET @x = 1",
			} {
				if after(statement) {
					t.Errorf("the session goes on after %s", statement)
				}
			}
			for _, statement := range []string{
				"SELECT 1", "DELETE FROM duetime_tasks", "SAVEPOINT settle",
				"/*M!100100 SET STATEMENT max_statement_time = 9 FOR*/ SELECT 1",
			} {
				if !after(statement) {
					t.Errorf("the session is given up after %s", statement)
				}
			}
		})
	}
}
