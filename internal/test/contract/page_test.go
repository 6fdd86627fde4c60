package contract_test

import (
	"fmt"
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

// TestPageWaitsForWhatIsDue runs the statement by which a service waits before it reads: it counts what is due of the owner at a moment, and
// walks through nothing else.
func TestPageWaitsForWhatIsDue(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/SQL-CONTRACT.md")
	pipelinetest.Must(t, err)
	_, section, _ := strings.Cut(string(page), "\n## Read fresh\n")
	_, statement, _ := strings.Cut(section, "```sql\n")
	statement, _, found := strings.Cut(statement, "```")
	if !found || strings.Count(statement, "@asked") != 1 {
		t.Fatalf("the page has %q", statement)
	}
	s := newSuite(t, pipelinetest.MySQL(t))
	c := &check{suite: s, owner: "customer-7"}
	first, later := c.plant(at(-minute, -minute)), c.plant()
	for range 100 {
		c.plant(at(minute, minute))
	}
	c.plant(in(cancelled))
	c.owner = "customer-8"
	c.plant()
	asked := fmt.Sprint(c.now())
	count := func() int64 { return s.number(strings.Replace(statement, "@asked", asked, 1)) }
	for ended, end := range []func(){
		func() {},
		func() { c.exec("UPDATE duetime_tasks SET state = 1 WHERE id = ?", first[:]) },
		func() { c.exec("UPDATE duetime_tasks SET run_at = run_at + 3600000 WHERE id = ?", later[:]) },
	} {
		if end(); count() != int64(2-ended) {
			t.Errorf("after %d of 2 have ended it counts %d", ended, count())
		}
	}
	session, err := s.db.Conn(t.Context())
	pipelinetest.Must(t, err)
	defer func() { pipelinetest.Must(t, session.Close()) }()
	_, err = session.ExecContext(t.Context(), "FLUSH STATUS")
	pipelinetest.Must(t, err)
	var n, read int
	pipelinetest.Must(t, session.QueryRowContext(t.Context(), strings.Replace(statement, "@asked", asked, 1)).Scan(&n))
	pipelinetest.Must(t, session.QueryRowContext(t.Context(), "SHOW SESSION STATUS LIKE 'Handler_read_next'").Scan(new(string), &read))
	if n != 0 || read > 10 {
		t.Errorf("it counts %d, and reads %d rows; want a seek", n, read)
	}
}
