package contract_test

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/migrations"
)

// TestPageTellsTheTable compares the columns that the contract promises with those of the table, and its range of migrations
// with the newest one: a migration from 1000 on ends contract 1.
func TestPageTellsTheTable(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/SQL-CONTRACT.md")
	pipelinetest.Must(t, err)
	promised := map[string]string{}
	columns := regexp.MustCompile("(?m)^\\| (`\\w+`(?:, `\\w+`)*) \\| `([^`]+)` \\|")
	for _, line := range columns.FindAllStringSubmatch(string(page), -1) {
		for _, name := range strings.Split(line[1], ", ") {
			promised[strings.Trim(name, "`")] = line[2]
		}
	}
	s := newSuite(t, pipelinetest.MySQL(t))
	table := map[string]string{}
	rows, err := s.db.QueryContext(t.Context(), `SELECT COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS
		WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'duetime_tasks' AND COLUMN_NAME <> 'traceparent'`)
	pipelinetest.Must(t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name, kind string
		pipelinetest.Must(t, rows.Scan(&name, &kind))
		table[name] = regexp.MustCompile(`int\(\d+\)`).ReplaceAllString(kind, "int") // older servers tell a width
	}
	pipelinetest.Must(t, rows.Err())
	if diff := cmp.Diff(table, promised); diff != "" {
		t.Errorf("columns (-table +page):\n%s", diff)
	}

	files, err := fs.Glob(migrations.Files, "mysql/*.sql")
	pipelinetest.Must(t, err)
	newest := files[len(files)-1]
	if len(files) < 11 || newest >= "mysql/01000" || !strings.Contains(string(page), "is 11 to 999") {
		t.Errorf("contract 1 is of migrations 11 to 999, and the newest is %s", newest)
	}
}
