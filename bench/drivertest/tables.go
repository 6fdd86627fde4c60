package drivertest

import (
	"database/sql"
	"testing"

	_ "github.com/go-sql-driver/mysql" // the effects' database

	"github.com/duetime/duetime/internal/test/pipelinetest" //nolint:depguard // only tests call this package
)

// Tables are those of the effects.
type Tables struct{ db *sql.DB }

// OpenTables makes the effects' tables in an empty schema, and a pet for each of 100,000 jobs.
func OpenTables(t *testing.T, dsn string) Tables {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	for _, statement := range []string{
		`CREATE TABLE bench_tasks (id BIGINT PRIMARY KEY, due_at BIGINT NOT NULL, state TINYINT NOT NULL DEFAULT 0)`,
		`CREATE TABLE bench_pets (id BIGINT PRIMARY KEY, meals INT NOT NULL DEFAULT 0)`,
		"INSERT INTO bench_pets (id) SELECT seq FROM " + pipelinetest.Numbers(0, 99_999),
	} {
		_, err := db.ExecContext(t.Context(), statement)
		pipelinetest.Must(t, err)
	}
	return Tables{db}
}

// Insert makes a job's row.
func (s Tables) Insert(t *testing.T, id int64) {
	t.Helper()
	_, err := s.db.ExecContext(t.Context(), `INSERT INTO bench_tasks (id, due_at) VALUES (?, 0)`, id)
	pipelinetest.Must(t, err)
}

// Fed counts pets that had a meal, and fails if any had more than one.
func (s Tables) Fed(t *testing.T) int64 {
	t.Helper()
	if doubled := s.count(t, `SELECT COUNT(*) FROM bench_pets WHERE meals > 1`); doubled > 0 {
		t.Fatalf("%d pets had more than one meal", doubled)
	}
	return s.count(t, `SELECT COUNT(*) FROM bench_pets WHERE meals = 1`)
}

// Done counts rows that are done.
func (s Tables) Done(t *testing.T) int64 {
	t.Helper()
	return s.count(t, `SELECT COUNT(*) FROM bench_tasks WHERE state = 1`)
}

func (s Tables) count(t *testing.T, query string) int64 {
	t.Helper()
	var n int64
	pipelinetest.Must(t, s.db.QueryRowContext(t.Context(), query).Scan(&n))
	return n
}
