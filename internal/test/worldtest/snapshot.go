package worldtest

import (
	"context"
	"math"
	"testing"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// HoldSnapshot opens a transaction that sees the tables as they are now, and keeps it open until the test ends: the server keeps
// the index entries of all rows that change meanwhile.
func HoldSnapshot(t testing.TB, s *store.Store) {
	t.Helper()
	c, err := s.DB().Connx(t.Context())
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, c.Close()) })
	ctx := context.WithoutCancel(t.Context())
	for _, statement := range []string{
		"SET SESSION wait_timeout = 600", "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT",
	} {
		_, err = c.ExecContext(ctx, statement)
		pipelinetest.Must(t, err)
	}
	t.Cleanup(func() {
		_, err := c.ExecContext(ctx, "ROLLBACK")
		pipelinetest.Must(t, err)
	})
}

// PagesRead is how many pages the test's own server reads for a read: the least of some tries, for it does other things too.
func PagesRead(t testing.TB, s *store.Store, read func()) int {
	t.Helper()
	count := func() (n int) {
		text := "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_read_requests'"
		pipelinetest.Must(t, s.DB().QueryRowContext(t.Context(), text).Scan(new(string), &n))
		return n
	}
	lowest := math.MaxInt
	for range 10 {
		before := count()
		read()
		lowest = min(lowest, count()-before)
	}
	return lowest
}
