package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
)

// The age counts from the transaction's begin, whatever zones the server and the session have.
func TestOldestTransaction(t *testing.T) {
	t.Parallel()
	m := pipelinetest.OwnMySQL(t, "--default-time-zone=+08:00")
	dsn := m.NewSchema(t)
	s := migrated(t, opened(t, dsn, store.Options{}))
	if age, err := s.OldestTransaction(t.Context()); err != nil || age > time.Minute {
		t.Errorf("without a transaction %v, %v; want 0", age, err)
	}
	worldtest.HoldSnapshot(t, s)
	began := time.Now()
	sessions := []*store.Store{s, opened(t, dsn+callers, store.Options{})}
	pipelinetest.Await(t, "the transaction to be two seconds old", func() bool {
		time.Sleep(200 * time.Millisecond) // MySQL reads its transactions anew once nobody has asked for 100 ms
		for _, session := range sessions {
			age, err := session.OldestTransaction(t.Context())
			must(t, err)
			if age > time.Since(began)+2*time.Second {
				t.Fatalf("%v old after %v", age, time.Since(began))
			}
			if age < 2*time.Second {
				return false
			}
		}
		return true
	})
	must(t, exec(s.DB(), "CREATE USER plain@'%'"))
	cfg, err := mysql.ParseDSN(dsn)
	must(t, err)
	must(t, exec(s.DB(), "GRANT SELECT ON "+cfg.DBName+".* TO plain@'%'"))
	cfg.User = "plain"
	if _, err := opened(t, cfg.FormatDSN(), store.Options{}).OldestTransaction(t.Context()); !errors.Is(err, store.ErrNoProcessRight) {
		t.Errorf("without the right: %v", err)
	}
}
