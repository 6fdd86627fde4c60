package pipelinetest_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestSnapshot(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	s := pipelinetest.OwnMySQL(t)
	db := openDB(t, s.NewSchema(t))
	defer func() { _ = db.Close() }()
	_, err := db.ExecContext(t.Context(), "CREATE TABLE kept (id INT PRIMARY KEY)")
	pipelinetest.Must(t, err)
	rows := insertUntilStopped(t, db)
	pipelinetest.Await(t, "some rows", func() bool { return rows.count() > 100 })

	before := rows.count()
	snapshot, err := s.Snapshot()
	pipelinetest.Must(t, err)
	after := rows.count() + 1 // one may be on its way
	pipelinetest.Await(t, "more rows", func() bool { return rows.count() > after+100 })
	rows.stop()

	for range 2 {
		pipelinetest.Must(t, s.Restore(snapshot))
		var count, last int
		pipelinetest.Await(t, "the restored server to answer", func() bool {
			return db.QueryRowContext(t.Context(), "SELECT COUNT(*), MAX(id) FROM kept").Scan(&count, &last) == nil
		})
		if count < before || count > after || last != count {
			t.Errorf("got %d rows up to %d, want all of %d to %d", count, last, before, after)
		}
		_, err = db.ExecContext(t.Context(), "INSERT INTO kept VALUES (?)", last+1)
		pipelinetest.Must(t, err)
	}

	pipelinetest.Must(t, s.Stop())
	snapshot, err = s.Snapshot()
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, s.Wipe())
	pipelinetest.Must(t, s.Restore(snapshot))
	if _, err = db.ExecContext(t.Context(), "SELECT id FROM kept"); err != nil {
		t.Errorf("restored what was copied from a stopped server: %v", err)
	}
}

// inserts are the rows 1, 2, … that were acknowledged so far.
type inserts struct {
	acknowledged chan int
	stop         func()
}

func (i inserts) count() int { n := <-i.acknowledged; i.acknowledged <- n; return n }

func insertUntilStopped(t *testing.T, db *sql.DB) inserts {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	i := inserts{acknowledged: make(chan int, 1), stop: func() { cancel(); <-done }}
	t.Cleanup(i.stop)
	i.acknowledged <- 0
	go func() {
		defer close(done)
		for id := 1; ; id++ {
			if _, err := db.ExecContext(ctx, "INSERT INTO kept VALUES (?)", id); err != nil {
				if ctx.Err() == nil {
					t.Errorf("insert %d: %v", id, err)
				}
				return
			}
			<-i.acknowledged
			i.acknowledged <- id
		}
	}()
	return i
}
