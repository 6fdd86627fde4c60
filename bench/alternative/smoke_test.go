package alternative_test

import (
	"context"
	"database/sql"
	"os"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the effects' database

	"github.com/duetime/duetime/bench/alternative/scan"
	"github.com/duetime/duetime/bench/alternative/zset"
	"github.com/duetime/duetime/bench/queue"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines())) }

const (
	pending = 300 // due one after the other within 1.5 s
	step    = 5 * time.Millisecond
	late    = 20 // overdue from the start
	far     = 20 // due in an hour, and moved to the end of the others
	total   = pending + late + far
	workers = 8
)

type opener func(context.Context, queue.Env) (queue.Queue, error)

func TestEachJobRunsOnceAndNeverEarly(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		open  opener
		table bool // writes bench_tasks by itself
	}{
		{name: "scan", open: scan.Open, table: true},
		{name: "zset", open: zset.Open},
	}
	for _, test := range tests {
		for _, mode := range []string{"empty", "effect"} {
			t.Run(test.name+"/"+mode, func(t *testing.T) {
				w := newWorld(t)
				w.insert = !test.table
				producer, worker := w.open(test.open), w.open(test.open)
				effects := queue.NewEffects(nil)
				if mode == "effect" {
					effects = queue.NewEffects(w.db)
				}
				stop := w.work(worker, effects)
				w.make(producer)
				pipelinetest.Await(t, "all jobs", func() bool { _, done, _ := effects.Seen(); return done >= total })
				stop()
				w.check(effects)
			})
		}
	}
}

// world is the servers of one test and the tables of the effects.
type world struct {
	t      *testing.T
	env    queue.Env
	db     *sql.DB
	insert bool // the queue needs the rows written for it
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, env: queue.Env{
		Dir:     t.TempDir(),
		Redis:   pipelinetest.OwnRedis(t).Addr(),
		MySQL:   pipelinetest.MySQL(t).NewSchema(t) + "?interpolateParams=true",
		Workers: workers,
	}}
	db, err := sql.Open("mysql", w.env.MySQL)
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	w.db = db
	w.exec(`CREATE TABLE bench_tasks (id BIGINT PRIMARY KEY, due_at BIGINT NOT NULL, state TINYINT NOT NULL DEFAULT 0, KEY (state, due_at))`)
	w.exec(`CREATE TABLE bench_pets (id BIGINT PRIMARY KEY, meals INT NOT NULL DEFAULT 0)`)
	w.exec("INSERT INTO bench_pets (id) SELECT seq FROM " + pipelinetest.Numbers(0, 999))
	return w
}

func (w *world) exec(statement string, args ...any) {
	w.t.Helper()
	_, err := w.db.ExecContext(w.t.Context(), statement, args...)
	pipelinetest.Must(w.t, err)
}

// open opens a queue that is closed after the test.
func (w *world) open(open opener) queue.Queue {
	w.t.Helper()
	q, err := open(w.t.Context(), w.env)
	pipelinetest.Must(w.t, err)
	w.t.Cleanup(func() { pipelinetest.Must(w.t, q.Close()) })
	return q
}

// work begins to work and gives what ends it.
func (w *world) work(q queue.Queue, e *queue.Effects) (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- q.Work(ctx, e) }()
	return func() {
		w.t.Helper()
		cancel()
		pipelinetest.Must(w.t, <-ended)
	}
}

// make schedules the jobs, and moves the far ones.
func (w *world) make(q queue.Queue) {
	w.t.Helper()
	now := time.Now()
	var jobs []queue.Job
	for i := range total {
		due := now.Add(time.Duration(i) * step)
		switch {
		case i >= pending+late:
			due = now.Add(time.Hour)
		case i >= pending:
			due = now.Add(-time.Second)
		}
		jobs = append(jobs, queue.Job{ID: int64(i), Due: due.UnixMicro()})
		if w.insert {
			w.exec(`INSERT INTO bench_tasks (id, due_at) VALUES (?, ?)`, i, due.UnixMilli())
		}
	}
	pipelinetest.Must(w.t, q.Schedule(w.t.Context(), jobs))
	for _, j := range jobs[pending+late:] {
		j.Due = now.Add(pending * step).UnixMicro()
		pipelinetest.Must(w.t, q.(queue.Mover).Move(w.t.Context(), j))
	}
}

// check wants one mark and, with effects, one meal for each job.
func (w *world) check(e *queue.Effects) {
	w.t.Helper()
	if started, done, last := e.Seen(); started != total || done != total || last == 0 {
		w.t.Errorf("%d started, %d done, the last at %d; want %d", started, done, last, total)
	}
	runs := map[int64]int{}
	for _, m := range e.Marks() {
		runs[m.ID]++
		if m.Start < 0 || m.Done < m.Start {
			w.t.Errorf("job %d ran from %d to %d µs after its due time", m.ID, m.Start, m.Done)
		}
	}
	for id := range int64(total) {
		if runs[id] != 1 {
			w.t.Errorf("job %d ran %d times", id, runs[id])
		}
	}
	if e.Real() {
		w.checkMeals()
	}
}

func (w *world) checkMeals() {
	w.t.Helper()
	var once, marked int64
	row := w.db.QueryRowContext(w.t.Context(), `SELECT SUM(meals = 1 AND id < ?) - SUM(meals <> 0 AND id >= ?) - SUM(meals > 1) FROM bench_pets`, total, total)
	pipelinetest.Must(w.t, row.Scan(&once))
	row = w.db.QueryRowContext(w.t.Context(), `SELECT COUNT(*) FROM bench_tasks WHERE state = 1`)
	pipelinetest.Must(w.t, row.Scan(&marked))
	if once != total || marked != total {
		w.t.Errorf("%d fed once, %d marked done; want %d", once, marked, total)
	}
}
