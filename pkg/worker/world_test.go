package worker_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/migrations"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		os.Exit(childMain(path))
	}
	os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines()))
}

// limit is generous because the machine may be slow and shared.
const limit = 30 * time.Second

// impatient is the least patience that a worker takes.
const impatient = task.MaxLead + time.Second

type payload struct {
	Word string `json:"word"`
}

// world is a database with tasks, an in-process stream, and what the worker told the index.
type world struct {
	t     testing.TB
	store *store.Store
	log   *stream.Local
	index *recorder
	reg   *prometheus.Registry
}

// recorder is an index that remembers.
type recorder struct {
	mu   sync.Mutex
	puts []task.Task
}

func (r *recorder) Put(_ context.Context, tasks []task.Task) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.puts = append(r.puts, tasks...)
	return nil
}

func (r *recorder) of(id task.ID) []task.Task {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []task.Task
	for _, t := range r.puts {
		if t.ID == id {
			out = append(out, t)
		}
	}
	return out
}

// databases runs the test on both.
func databases(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) { t.Parallel(); test(t, onSQLite(t)) })
	t.Run("MySQL", func(t *testing.T) { t.Parallel(); test(t, onMySQL(t)) })
}

func onSQLite(t testing.TB) *world {
	t.Helper()
	s, err := store.OpenSQLite(filepath.Join(t.TempDir(), "duetime.db"))
	pipelinetest.Must(t, err)
	return newWorld(t, s)
}

func onMySQL(t testing.TB) *world {
	t.Helper()
	s, err := store.Open(pipelinetest.MySQL(t).NewSchema(t), store.Options{LockWait: time.Second})
	pipelinetest.Must(t, err)
	return newWorld(t, s)
}

func newWorld(t testing.TB, s *store.Store) *world {
	t.Helper()
	t.Cleanup(func() { pipelinetest.Must(t, s.Close()) })
	pipelinetest.Must(t, s.Migrate(t.Context(), migrations.Files, "test", 4))
	w := &world{
		t: t, store: s, index: &recorder{}, reg: prometheus.NewRegistry(),
		log: stream.NewLocal(stream.Config{Namespace: "test", Partitions: 3}),
	}
	w.exec("CREATE TABLE effects (task_id VARCHAR(36), word VARCHAR(64))")
	w.exec("CREATE TABLE counters (name VARCHAR(64) PRIMARY KEY, n INT)")
	return w
}

func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	_, err := w.store.DB().ExecContext(context.WithoutCancel(w.t.Context()), query, args...)
	pipelinetest.Must(w.t, err)
}

// inTx commits what fn does.
func (w *world) inTx(fn func(ctx context.Context, tx *schedule.Tx) error) {
	w.t.Helper()
	pipelinetest.Must(w.t, w.tryTx(fn))
}

func (w *world) tryTx(fn func(ctx context.Context, tx *schedule.Tx) error) error {
	ctx := w.t.Context()
	tx, err := w.store.Begin(ctx)
	if err != nil {
		return err
	}
	if err := fn(ctx, schedule.NewTx(tx, w.store)); err != nil {
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}

func (w *world) schedule(specs ...task.Spec) []task.Task {
	w.t.Helper()
	var made []task.Task
	w.inTx(func(ctx context.Context, tx *schedule.Tx) (err error) {
		made, err = tx.ScheduleMany(ctx, specs)
		return err
	})
	return made
}

// due returns n tasks of the kind that are due now, each of an owner of its own.
func (w *world) due(kind task.Kind[payload], n int) []task.Task {
	w.t.Helper()
	return w.dueIn(kind, n, 0)
}

func (w *world) dueIn(kind task.Kind[payload], n int, d time.Duration) []task.Task {
	w.t.Helper()
	specs := make([]task.Spec, n)
	for i := range specs {
		specs[i] = kind.New(fmt.Sprintf("owner%d", i), payload{Word: fmt.Sprint(i)}, task.In(d))
	}
	return w.schedule(specs...)
}

func (w *world) row(id task.ID) task.Task {
	w.t.Helper()
	rows, err := w.store.Get(context.WithoutCancel(w.t.Context()), nil, []task.ID{id})
	pipelinetest.Must(w.t, err)
	if len(rows) != 1 {
		w.t.Fatalf("task %s: got %d rows", id, len(rows))
	}
	return rows[0]
}

// effects counts the effects of a task.
func (w *world) effects(id task.ID) int {
	w.t.Helper()
	return w.number("SELECT COUNT(*) FROM effects WHERE task_id = ?", id.String())
}

func (w *world) number(query string, args ...any) int {
	w.t.Helper()
	var n int
	pipelinetest.Must(w.t, w.store.DB().GetContext(context.WithoutCancel(w.t.Context()), &n, query, args...))
	return n
}

// effect is what most handlers here do.
func effect(ctx context.Context, tx *worker.Tx, t worker.Task[payload]) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO effects (task_id, word) VALUES (?, ?)", t.ID.String(), t.Payload.Word)
	return err
}

func (w *world) worker(mux *worker.Mux, cfg worker.Config) *worker.Worker {
	w.t.Helper()
	return w.workerOn(w.store, mux, cfg)
}

func (w *world) workerOn(s worker.Store, mux *worker.Mux, cfg worker.Config) *worker.Worker {
	w.t.Helper()
	cfg.Metrics = w.reg
	cfg.Late = cmp.Or(cfg.Late, -1) // what a test does not publish must not run
	if cfg.BatchTime == 0 {
		cfg.BatchTime = 5 * time.Second // a slow machine must not part a batch
	}
	made, err := worker.New(cfg, mux, s, w.log, w.index, w.log)
	pipelinetest.Must(w.t, err)
	return made
}

func hints(tasks ...task.Task) []task.Hint {
	out := make([]task.Hint, len(tasks))
	for i, t := range tasks {
		out[i] = task.Hint{ID: t.ID, Kind: t.Kind, Owner: t.Owner, RunAt: t.RunAt.UnixMilli(), Version: t.Version}
	}
	return out
}

// pass settles the tasks' hints once and gives the results by task.
func (w *world) pass(wk *worker.Worker, tasks ...task.Task) map[task.ID]worker.Outcome {
	w.t.Helper()
	outs, err := wk.Pass(w.t.Context(), hints(tasks...))
	pipelinetest.Must(w.t, err)
	got := map[task.ID]worker.Outcome{}
	for _, o := range outs {
		got[o.ID] = o
	}
	return got
}

func (w *world) publish(tasks ...task.Task) {
	w.t.Helper()
	entries := make([]task.Entry, len(tasks))
	for i, t := range tasks {
		entries[i] = task.Entry{ID: t.ID, Kind: t.Kind, Queue: t.Queue, Owner: t.Owner, Score: task.ScoreOf(t)}
	}
	for _, err := range w.log.Publish(w.t.Context(), entries, 1) {
		pipelinetest.Must(w.t, err)
	}
}

// run runs the worker until stop is called, and returns when it has joined its groups.
func (w *world) run(wk *worker.Worker) (stop func() error) {
	w.t.Helper()
	stop = w.begin(wk)
	joined, done := context.WithTimeout(context.WithoutCancel(w.t.Context()), limit)
	defer done()
	pipelinetest.Must(w.t, wk.Joined(joined))
	return stop
}

// begin runs the worker until stop is called, which returns what Run returned.
func (w *world) begin(wk *worker.Worker) (stop func() error) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- wk.Run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	w.t.Cleanup(func() { _ = stop() })
	return stop
}

func (w *world) settled(kind, result string) float64 {
	w.t.Helper()
	return w.metric("duetime_tasks_settled_total", map[string]string{"kind": kind, "result": result})
}

func (w *world) metric(name string, labels map[string]string) float64 {
	w.t.Helper()
	families, err := w.reg.Gather()
	pipelinetest.Must(w.t, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
	next:
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if want, ok := labels[l.GetName()]; ok && want != l.GetValue() {
					continue next
				}
			}
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return 0
}

func (w *world) explained(at time.Time) bool {
	b, err := w.log.Backlog(w.t.Context(), "default")
	pipelinetest.Must(w.t, err)
	for i := range 50 {
		if b.Explains(fmt.Sprintf("owner%d", i), at) {
			return true
		}
	}
	return false
}

func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
