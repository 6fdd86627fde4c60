package schedule_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// A service stores ids in columns of its own, as text and as bytes, and reads them back, with either protocol of MySQL's.
func TestIDInColumnsOfTheServices(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dsn := pipelinetest.MySQL(t).NewSchema(t)
	for _, parameters := range []string{"?interpolateParams=true", ""} {
		db, err := sql.Open("mysql", dsn+parameters)
		pipelinetest.Must(t, err)
		t.Cleanup(func() { _ = db.Close() })
		columns(ctx, t, db)
	}
}

func columns(ctx context.Context, t *testing.T, db *sql.DB) {
	t.Helper()
	db.SetMaxOpenConns(1) // the table is of the session
	_, err := db.ExecContext(ctx, "CREATE TEMPORARY TABLE meals (n INT, text CHAR(36) NULL, letters VARCHAR(64) NULL, bytes BINARY(16) NULL)")
	pipelinetest.Must(t, err)
	id := task.NewID()
	_, err = db.ExecContext(ctx, "INSERT INTO meals VALUES (1, ?, ?, ?), (2, ?, NULL, NULL)", id, id, id[:], task.ID{})
	pipelinetest.Must(t, err)
	var text, letters, bytes, none task.ID
	pipelinetest.Must(t, db.QueryRowContext(ctx, "SELECT text, letters, bytes FROM meals WHERE text = ?", id).Scan(&text, &letters, &bytes))
	if text != id || letters != id || bytes != id {
		t.Errorf("got %v, %v, %v, want %v", text, letters, bytes, id)
	}
	none = id
	pipelinetest.Must(t, db.QueryRowContext(ctx, "SELECT text FROM meals WHERE n = 2 AND text IS NULL").Scan(&none))
	if !none.IsZero() {
		t.Errorf("NULL became %v, want the zero id", none)
	}
	var maybe sql.Null[task.ID]
	pipelinetest.Must(t, db.QueryRowContext(ctx, "SELECT text FROM meals WHERE n = 1").Scan(&maybe))
	if !maybe.Valid || maybe.V != id {
		t.Errorf("got %+v, want %v", maybe, id)
	}
}
