package worldtest

import (
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/migrations"
)

// tables are the statements that make what the migrations make, once a test has read them.
var (
	tablesMu sync.Mutex
	tables   string
)

// Schema returns the DSN of a schema of this test's own in which every migration has run. No deployment has claimed it:
// Migrate does, as embedded.OpenMySQL and duetimetest.Migrate do. The tables are copied from the first such schema of
// the process, because the migrations take several times as long.
func Schema(t testing.TB) string {
	t.Helper()
	dsn := pipelinetest.MySQL(t).NewSchema(t)
	db, err := sql.Open("mysql", dsn+"?multiStatements=true")
	pipelinetest.Must(t, err)
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(t.Context(), migrated(t))
	pipelinetest.Must(t, err)
	return dsn
}

// migrated returns the statements of all migrations' outcome.
func migrated(t testing.TB) string {
	t.Helper()
	tablesMu.Lock()
	defer tablesMu.Unlock()
	if tables != "" {
		return tables
	}
	s, err := store.Open(pipelinetest.MySQL(t).NewSchema(t), store.Options{})
	pipelinetest.Must(t, err)
	defer func() { _ = s.Close() }()
	pipelinetest.Must(t, s.Migrate(t.Context(), migrations.Files, "copied", 1))
	var names, versions []string
	pipelinetest.Must(t, s.DB().SelectContext(t.Context(), &names, "SELECT table_name FROM information_schema.tables "+
		"WHERE table_schema = DATABASE() ORDER BY table_type, table_name")) // a view needs its table
	pipelinetest.Must(t, s.DB().SelectContext(t.Context(), &versions, "SELECT version_id FROM duetime_migrations ORDER BY id"))
	var made strings.Builder
	for _, name := range names {
		row, err := s.DB().QueryRowxContext(t.Context(), "SHOW CREATE TABLE "+name).SliceScan() // of a view it has more columns
		pipelinetest.Must(t, err)
		fmt.Fprintf(&made, "%s;\n", row[1])
	}
	fmt.Fprintf(&made, "INSERT INTO duetime_migrations (version_id, is_applied) VALUES (%s, 1)", strings.Join(versions, ", 1), ("))
	tables = made.String()
	return tables
}
