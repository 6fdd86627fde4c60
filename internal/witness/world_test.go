package witness

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	_ "modernc.org/sqlite"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/embedded"
	"github.com/duetime/duetime/pkg/task"
)

// world is a pipeline in this process that runs the witness's tasks, and a witness.
type world struct {
	*Witness

	rows *store.Store
}

// deafIndex takes no hint.
type deafIndex struct{}

func (deafIndex) Put(context.Context, []task.Task) error { return nil }

func newWorld(t *testing.T) *world {
	t.Helper()
	path, log := filepath.Join(t.TempDir(), "duetime.db"), slog.New(slog.DiscardHandler)
	p, err := embedded.OpenSQLite(t.Context(), path, embedded.Config{Queues: []string{protocol.WitnessQueue}, Logger: log})
	pipelinetest.Must(t, err)
	rows, err := store.OpenSQLite(path)
	pipelinetest.Must(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- p.Work(ctx, Handlers(rows.InsertEffect)) }()
	t.Cleanup(func() {
		stop()
		pipelinetest.Must(t, <-ended)
		pipelinetest.Must(t, p.Close(context.Background()))
		pipelinetest.Must(t, rows.Close())
	})
	return &world{New(Config{
		Now: time.Now, Retention: time.Hour, Logger: log, Metrics: prometheus.NewRegistry(),
	}, rows, p.Client, deafIndex{}), rows}
}

// lead has the witness lead until the returned function is called.
func (w *world) lead(epoch int64) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); w.Lead(ctx, epoch) }()
	return func() { cancel(); <-ended }
}

func (w *world) number(t *testing.T, query string, args ...any) (n int) {
	t.Helper()
	pipelinetest.Must(t, w.rows.DB().GetContext(t.Context(), &n, query, args...))
	return n
}

// TestGame plays each play, with a change of the leader, and finds no fault; and what plays leave is deleted.
func TestGame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.lead(1)
	judged := func(n int) func() bool {
		return func() bool {
			return w.number(t, "SELECT COUNT(*) FROM duetime_witness_plays") >= n
		}
	}
	pipelinetest.Await(t, "plays to be judged", judged(3))
	stop()
	if len(w.open) == 0 {
		t.Error("no play goes on")
	}
	before := w.number(t, "SELECT COUNT(*) FROM duetime_witness_plays")
	stop = w.lead(2)
	pipelinetest.Await(t, "each play to be judged", judged(before+len(plays)))
	stop()
	if n := w.number(t, "SELECT COUNT(*) FROM duetime_witness_plays WHERE faults <> ''"); n > 0 {
		var text string
		pipelinetest.Must(t, w.rows.DB().GetContext(t.Context(), &text,
			"SELECT GROUP_CONCAT(faults || ' ' || promises) FROM duetime_witness_plays WHERE faults <> ''"))
		t.Errorf("%d plays with a fault: %s", n, text)
	}
	for _, table := range []string{"duetime_tasks WHERE state <> 0", "duetime_history WHERE task IS NOT NULL", "duetime_witness_effects"} {
		if n := w.number(t, "SELECT COUNT(*) FROM "+table); n > 20 { // those of the last seconds, and effects of plays that were broken off
			t.Errorf("%d rows of %s", n, table)
		}
	}
}

// TestLateCalls makes each play's calls a minute late, as on a machine that stood still: what was due at a time that has
// passed is due at once, and no fault.
func TestLateCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range plays {
		w.beginPlay(w.now().Add(-time.Minute))
	}
	pipelinetest.Await(t, "a verdict on each play", func() bool {
		w.takeSteps(t.Context())
		pipelinetest.Must(t, w.judge(t.Context()))
		return len(w.open) == 0
	})
	if n := w.number(t, "SELECT COUNT(*) FROM duetime_witness_plays WHERE faults <> ''"); n > 0 {
		t.Errorf("%d plays with a fault", n)
	}
}
