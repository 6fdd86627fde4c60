package store_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// schemas are migrated and empty ones, by the address of their server. A new one takes MySQL 8.0 half a second once some
// hundred were made, an emptied one a hundredth of that.
var schemas = struct {
	mu   sync.Mutex
	free map[string][]string
	made int
}{free: map[string][]string{}}

// lent returns a migrated store whose schema an earlier test may have used. Tests that change a table of ours take
// openMySQLStore.
func lent(t testing.TB, server *pipelinetest.MySQLServer, params string, o store.Options) *store.Store {
	t.Helper()
	name := freeSchema(t, server)
	dsn := "root@tcp(" + server.Addr() + ")/" + name
	t.Cleanup(func() {
		if !t.Failed() && emptied(t, dsn) == nil {
			schemas.mu.Lock()
			defer schemas.mu.Unlock()
			schemas.free[server.Addr()] = append(schemas.free[server.Addr()], name)
		}
	})
	return migrated(t, opened(t, dsn+params, o))
}

func freeSchema(t testing.TB, server *pipelinetest.MySQLServer) string {
	t.Helper()
	schemas.mu.Lock()
	defer schemas.mu.Unlock()
	free := schemas.free[server.Addr()]
	if n := len(free); n > 0 {
		schemas.free[server.Addr()] = free[:n-1]
		return free[n-1]
	}
	schemas.made++
	name := fmt.Sprintf("lent_%d", schemas.made)
	must(t, exec(opened(t, "root@tcp("+server.Addr()+")/mysql", store.Options{}).DB(), "CREATE DATABASE "+name))
	return name
}

// emptied removes all rows of a schema's tables but the list of migrations, and all tables that are not ours.
func emptied(t testing.TB, dsn string) error {
	t.Helper()
	s, err := store.Open(dsn, store.Options{})
	must(t, err)
	defer func() { must(t, s.Close()) }()
	var tables []string
	err = s.DB().Select(&tables, "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()")
	for _, table := range tables {
		switch {
		case err != nil || table == "duetime_migrations":
		case strings.HasPrefix(table, "duetime_"):
			err = exec(s.DB(), "DELETE FROM "+table)
		default:
			err = exec(s.DB(), "DROP TABLE "+table)
		}
	}
	return err
}
