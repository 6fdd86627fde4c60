// Package bullmq_test plays a few hundred jobs through BullMQ's driver.
package bullmq_test

import (
	"bufio"
	"database/sql"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the effects' database

	"github.com/duetime/duetime/bench/protocol"
	"github.com/duetime/duetime/bench/queue"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines())) }

const (
	scheduled = 300
	later     = 40 // jobs scheduled an hour ahead, and moved to now
)

func TestDriverRunsEachJobOnce(t *testing.T) {
	t.Parallel()
	env := queue.Env{Redis: pipelinetest.OwnRedis(t).Addr(), Workers: 8}
	env.MySQL = pipelinetest.OwnMySQL(t).NewSchema(t) + "?interpolateParams=true"
	db := openTables(t, env.MySQL)
	producer, worker := start(t, env), start(t, env)

	hour := time.Now().Add(time.Hour).UnixMicro()
	soon := time.Now().Add(5 * time.Second).UnixMicro()
	worker.ask(protocol.Request{Op: "work", Effect: true})
	producer.ask(protocol.Request{Op: "schedule", Count: scheduled, Due: soon, Step: 2000})
	producer.ask(protocol.Request{Op: "schedule", First: scheduled, Count: later, Due: hour})
	moved := producer.ask(protocol.Request{Op: "move", First: scheduled, Count: later, Due: soon, Callers: 8, Seconds: 0.5})
	if moved.Jobs < later {
		t.Fatalf("only %d of %d jobs moved", moved.Jobs, later)
	}
	const first = scheduled + later
	accepted := producer.ask(protocol.Request{Op: "accept", First: first, Due: soon, Step: 1000, Callers: 4, Seconds: 0.05, Bulk: 5})

	total := first + accepted.Jobs
	pipelinetest.Await(t, "the effects of all jobs", func() bool { return count(t, db, 1) == total })
	seen := worker.ask(protocol.Request{Op: "seen"})
	if seen.Started != total || seen.Done != total || seen.Last < soon {
		t.Errorf("seen %+v, want %d started and done", seen, total)
	}
	ids := map[int64]bool{}
	for _, m := range worker.ask(protocol.Request{Op: "marks"}).Marks {
		if m.ID >= scheduled && m.ID < first {
			m.Start += hour - soon // the payload has the time from before the move
			m.Done += hour - soon
		}
		if m.Start < 0 || m.Done < m.Start {
			t.Errorf("job %d ran from %d to %d µs after its due time", m.ID, m.Start, m.Done)
		}
		ids[m.ID] = true
	}
	if n := int64(len(ids)); n != total {
		t.Errorf("%d of %d jobs left a mark", n, total)
	}
	if rows := countRows(t, db, `SELECT COUNT(*) FROM bench_tasks WHERE state = 1`); rows != accepted.Jobs {
		t.Errorf("%d rows are done, want the %d accepted", rows, accepted.Jobs)
	}
	if answer := producer.try(protocol.Request{Op: "moveowner"}); answer.Error == "" {
		t.Error("no error for what BullMQ can't do")
	}
	producer.stop()
	worker.stop()
}

// openTables makes the effects' tables, and a pet for each job.
func openTables(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	for _, statement := range []string{
		`CREATE TABLE bench_tasks (id BIGINT PRIMARY KEY, due_at BIGINT NOT NULL, state TINYINT NOT NULL DEFAULT 0, KEY (state, due_at))`,
		`CREATE TABLE bench_pets (id BIGINT PRIMARY KEY, meals INT NOT NULL DEFAULT 0)`,
		"INSERT INTO bench_pets (id) SELECT seq FROM " + pipelinetest.Numbers(0, 99_999),
	} {
		_, err := db.ExecContext(t.Context(), statement)
		pipelinetest.Must(t, err)
	}
	return db
}

// count counts pets with so many meals, and fails if any has more than one.
func count(t *testing.T, db *sql.DB, meals int) int64 {
	t.Helper()
	if doubled := countRows(t, db, `SELECT COUNT(*) FROM bench_pets WHERE meals > 1`); doubled > 0 {
		t.Fatalf("%d effects are doubled", doubled)
	}
	return countRows(t, db, `SELECT COUNT(*) FROM bench_pets WHERE meals = ?`, meals)
}

func countRows(t *testing.T, db *sql.DB, query string, args ...any) int64 {
	t.Helper()
	var n int64
	pipelinetest.Must(t, db.QueryRowContext(t.Context(), query, args...).Scan(&n))
	return n
}

// driver is a running driver.mjs.
type driver struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Reader
}

func start(t *testing.T, env queue.Env) *driver {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Fatal("BullMQ needs node: apt-get install -y --no-install-recommends nodejs npm")
	}
	if _, err := os.Stat("node_modules"); err != nil {
		t.Fatal("BullMQ is not installed: cd bench/bullmq && npm ci")
	}
	settings, err := json.Marshal(env)
	pipelinetest.Must(t, err)
	cmd := exec.CommandContext(t.Context(), "node", "driver.mjs")
	cmd.Env = append(os.Environ(), "BENCH="+string(settings))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	pipelinetest.Must(t, err)
	out, err := cmd.StdoutPipe()
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, cmd.Start())
	d := &driver{t: t, cmd: cmd, in: in, lines: bufio.NewReader(out)}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // it ends with its input; after stop it has
	})
	d.read()
	return d
}

func (d *driver) ask(r protocol.Request) protocol.Response {
	d.t.Helper()
	answer := d.try(r)
	if answer.Error != "" {
		d.t.Fatalf("%s: %s", r.Op, answer.Error)
	}
	return answer
}

func (d *driver) try(r protocol.Request) protocol.Response {
	d.t.Helper()
	pipelinetest.Must(d.t, json.NewEncoder(d.in).Encode(r))
	return d.read()
}

func (d *driver) read() protocol.Response {
	d.t.Helper()
	line, err := d.lines.ReadBytes('\n')
	pipelinetest.Must(d.t, err)
	var answer protocol.Response
	pipelinetest.Must(d.t, json.Unmarshal(line, &answer))
	return answer
}

func (d *driver) stop() {
	d.t.Helper()
	d.ask(protocol.Request{Op: "stop"})
	pipelinetest.Must(d.t, d.cmd.Wait())
}
