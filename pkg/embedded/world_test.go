package embedded_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/embedded"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

func TestMain(m *testing.M) {
	os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines()))
}

type note struct {
	Word string `json:"word"`
}

var (
	ring  = task.NewKind[note]("bell.ring", task.MaxAttempts(3), task.Retry(task.Backoff{Min: 20 * time.Millisecond, Max: 50 * time.Millisecond}))
	count = task.NewKind[note]("bell.count", task.Queue("slow"))
)

// world is one database and the pipelines that a test opens on it.
type world struct {
	t    *testing.T
	open func(ctx context.Context, cfg embedded.Config) (*embedded.Pipeline, error)
}

// databases runs the test on both.
func databases(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "embedded.db")
		test(t, &world{t: t, open: func(ctx context.Context, cfg embedded.Config) (*embedded.Pipeline, error) {
			return embedded.OpenSQLite(ctx, path, cfg)
		}})
	})
	t.Run("MySQL", func(t *testing.T) {
		t.Parallel()
		dsn := worldtest.Schema(t)
		test(t, &world{t: t, open: func(ctx context.Context, cfg embedded.Config) (*embedded.Pipeline, error) {
			return embedded.OpenMySQL(ctx, dsn, cfg)
		}})
	})
}

// pipeline opens a pipeline, which is closed at the latest after the test, and creates the table of effects.
func (w *world) pipeline(cfg embedded.Config) *embedded.Pipeline {
	w.t.Helper()
	cfg.Logger = slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	cfg.Queues = []string{"default", "slow"}
	cfg.Grace, cfg.Interval = 500*time.Millisecond, 200*time.Millisecond
	p, err := w.open(w.t.Context(), cfg)
	pipelinetest.Must(w.t, err)
	w.t.Cleanup(func() { pipelinetest.Must(w.t, p.Close(context.Background())) })
	_, err = p.DB().ExecContext(w.t.Context(), "CREATE TABLE IF NOT EXISTS effects (task_id VARCHAR(36), word VARCHAR(64), early BIGINT)")
	pipelinetest.Must(w.t, err)
	return p
}

// effect is the handler in most tests: it records the task, and by how many milliseconds it is too early.
func effect(ctx context.Context, tx *worker.Tx, t worker.Task[note]) error {
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO effects (task_id, word, early) VALUES (?, ?, ?)",
		t.ID.String(), t.Payload.Word, max(0, t.RunAt.Sub(now).Milliseconds()))
	return err
}

// ringing returns a mux whose handlers record their tasks.
func ringing() *worker.Mux {
	mux := worker.NewMux()
	worker.Handle(mux, ring, effect)
	worker.HandleBatch(mux, count, func(ctx context.Context, tx *worker.Tx, ts []worker.Task[note]) error {
		var errs []error
		for _, t := range ts {
			errs = append(errs, effect(ctx, tx, t))
		}
		return errors.Join(errs...)
	})
	return mux
}

// work starts Work; the returned function stops it and returns its error.
func (w *world) work(p *embedded.Pipeline, mux *worker.Mux) (stop func() error) {
	w.t.Helper()
	stop = worldtest.Run(w.t, func(ctx context.Context) error { return p.Work(ctx, mux) })
	w.t.Cleanup(func() { pipelinetest.Must(w.t, stop()) })
	return stop
}

func (w *world) schedule(p *embedded.Pipeline, spec task.Spec) task.Task {
	w.t.Helper()
	made, err := p.Schedule(w.t.Context(), spec)
	pipelinetest.Must(w.t, err)
	return made
}

func (w *world) row(p *embedded.Pipeline, id task.ID) task.Task {
	w.t.Helper()
	row, err := p.Get(w.t.Context(), id)
	pipelinetest.Must(w.t, err)
	return row
}

// await waits until the task is in the state, and returns its row.
func (w *world) await(p *embedded.Pipeline, id task.ID, state task.State) task.Task {
	w.t.Helper()
	var row task.Task
	pipelinetest.Await(w.t, "task "+state.String(), func() bool {
		row = w.row(p, id)
		return row.State == state
	})
	return row
}

func (w *world) number(p *embedded.Pipeline, query string, args ...any) int {
	w.t.Helper()
	var n int
	pipelinetest.Must(w.t, p.DB().GetContext(w.t.Context(), &n, query, args...))
	return n
}

// once checks that each task took effect once, and none too early.
func (w *world) once(p *embedded.Pipeline, tasks ...task.Task) {
	w.t.Helper()
	for _, t := range tasks {
		if n := w.number(p, "SELECT COUNT(*) FROM effects WHERE task_id = ?", t.ID.String()); n != 1 {
			w.t.Errorf("task %s: got %d effects, want 1", t.ID, n)
		}
	}
	if n := w.number(p, "SELECT COUNT(*) FROM effects WHERE early > 0"); n != 0 {
		w.t.Errorf("got %d early effects", n)
	}
}
