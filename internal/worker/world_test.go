package worker_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/streamtest"
	"github.com/duetime/duetime/internal/test/worldtest"
	engine "github.com/duetime/duetime/internal/worker"
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
const impatient = protocol.MaxLead + time.Second

type payload struct {
	Word string `json:"word"`
}

// world is a database with tasks, an in-process stream, and what the worker told the index.
type world struct {
	t     testing.TB
	store *worldtest.Store
	log   *stream.Kafka
	index *worldtest.Recorder
	reg   *prometheus.Registry
}

// databases runs the test on both. Most tests run on MySQL alone: these are about what the two do differently.
func databases(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) { t.Parallel(); test(t, onStore(t, worldtest.NewSQLite(t, "test"))) })
	t.Run("MySQL", func(t *testing.T) { t.Parallel(); test(t, newWorld(t)) })
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return onStore(t, worldtest.NewStore(t, "test", store.Options{LockWait: time.Second}))
}

func onStore(t testing.TB, s *worldtest.Store) *world {
	t.Helper()
	s.Exec("CREATE TABLE effects (task_id VARCHAR(36), word VARCHAR(64))")
	s.Exec("CREATE TABLE counters (name VARCHAR(64) PRIMARY KEY, n INT)")
	return &world{
		t: t, store: s, index: &worldtest.Recorder{}, reg: prometheus.NewRegistry(),
		log: streamtest.New(stream.Config{Namespace: "test", Partitions: 3}),
	}
}

// inTx commits what fn does.
func (w *world) inTx(fn func(ctx context.Context, tx *schedule.Tx) error) {
	w.t.Helper()
	pipelinetest.Must(w.t, w.tryTx(fn))
}

func (w *world) tryTx(fn func(ctx context.Context, tx *schedule.Tx) error) error {
	return w.store.TryTx(func(ctx context.Context, tx *sqlx.Tx) error { return fn(ctx, schedule.NewTx(tx, w.store)) })
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

// effects counts the effects of a task.
func (w *world) effects(id task.ID) int {
	w.t.Helper()
	return w.store.Number("SELECT COUNT(*) FROM effects WHERE task_id = ?", id.String())
}

// effect is what most handlers here do.
func effect(ctx context.Context, tx *worker.Tx, t worker.Task[payload]) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO effects (task_id, word) VALUES (?, ?)", t.ID.String(), t.Payload.Word)
	return err
}

// deadlock prepares the counters for a handler that calls begin, which locks a: what the handler then sends about b is a
// deadlock, of which its transaction is the victim. ended answers once the other one is rolled back.
func (w *world) deadlock() (begin func(ctx context.Context, tx *worker.Tx), ended chan error) {
	w.t.Helper()
	for i := range 50 {
		w.store.Exec("INSERT INTO counters VALUES (?, 0)", fmt.Sprintf("other%d", i))
	}
	w.store.Exec("INSERT INTO counters VALUES ('a', 0), ('b', 0)")
	other, err := w.store.DB().BeginTxx(w.t.Context(), nil)
	pipelinetest.Must(w.t, err)
	for _, text := range []string{
		"SET SESSION innodb_lock_wait_timeout = 60",                            // it waits until ours is the victim
		"UPDATE counters SET n = n + 1 WHERE name LIKE 'other%' OR name = 'b'", // heavier
	} {
		_, err = other.ExecContext(w.t.Context(), text)
		pipelinetest.Must(w.t, err)
	}
	ended = make(chan error, 1)
	lockA := "UPDATE counters SET n = n + 1 WHERE name = 'a'"
	return func(ctx context.Context, tx *worker.Tx) {
		_, err := tx.ExecContext(ctx, lockA)
		want(w.t, "lock a", err, nil)
		go func() {
			_, err := other.ExecContext(context.Background(), lockA)
			ended <- errors.Join(err, other.Rollback())
		}()
		pipelinetest.Await(w.t, "the other waits", func() bool { return pipelinetest.LockWaits(w.t, w.store.DB()) > 0 })
	}, ended
}

func (w *world) worker(mux *worker.Mux, cfg engine.Config) *engine.Worker {
	w.t.Helper()
	return w.workerOn(w.store, mux, cfg)
}

func (w *world) workerOn(s engine.Store, mux *worker.Mux, cfg engine.Config) *engine.Worker {
	w.t.Helper()
	cfg.Metrics = w.reg
	cfg.Late = cmp.Or(cfg.Late, -1) // what a test does not publish must not run
	if cfg.BatchTime == 0 {
		cfg.BatchTime = 5 * time.Second // a slow machine must not part a batch
	}
	made, err := engine.New(patient(cfg), mux, s, w.log, w.index, w.log)
	pipelinetest.Must(w.t, err)
	return made
}

// patient gives a handler that waits for its test, and a hint that waits for such a handler, more time than a slow machine needs.
func patient(cfg engine.Config) engine.Config {
	cfg.HandlerTimeout = cmp.Or(cfg.HandlerTimeout, 10*limit)
	cfg.Patience = cmp.Or(cfg.Patience, 10*limit)
	return cfg
}

// pass settles the tasks' hints once and gives the results by task.
func (w *world) pass(wk *engine.Worker, tasks ...task.Task) map[task.ID]engine.Outcome {
	w.t.Helper()
	outs, err := wk.Pass(w.t.Context(), worldtest.Hints(tasks...))
	pipelinetest.Must(w.t, err)
	got := map[task.ID]engine.Outcome{}
	for _, o := range outs {
		got[o.ID] = o
	}
	return got
}

// passAll passes until no task is held, and gives the last results by task.
func (w *world) passAll(wk *engine.Worker, tasks ...task.Task) map[task.ID]engine.Outcome {
	w.t.Helper()
	got := map[task.ID]engine.Outcome{}
	for range tasks {
		held := slices.DeleteFunc(slices.Clone(tasks), func(made task.Task) bool { return got[made.ID].Result != "" })
		maps.Copy(got, w.pass(wk, held...))
	}
	return got
}

func (w *world) publish(tasks ...task.Task) {
	w.t.Helper()
	for _, err := range w.log.Publish(w.t.Context(), worldtest.Entries(tasks...), 1) {
		pipelinetest.Must(w.t, err)
	}
}

// run runs the worker until stop is called, and returns when it has joined its groups.
func (w *world) run(wk *engine.Worker) (stop func() error) {
	w.t.Helper()
	stop = worldtest.Run(w.t, wk.Run)
	joined, done := context.WithTimeout(context.WithoutCancel(w.t.Context()), limit)
	defer done()
	pipelinetest.Must(w.t, wk.Joined(joined))
	return stop
}

func (w *world) settled(kind, result string) float64 {
	w.t.Helper()
	return w.metric("duetime_tasks_settled_total", "kind", kind, "result", result)
}

// metric sums the metric's samples with the labels, given as names and values.
func (w *world) metric(name string, labels ...string) float64 {
	w.t.Helper()
	return worldtest.Sum(w.t, w.reg, name, labels...)
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
