package embedded_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/embedded"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

func TestFires(t *testing.T) {
	t.Parallel()
	databases(t, func(_ *testing.T, w *world) {
		p := w.pipeline(embedded.Config{})
		before := w.schedule(p, ring.New("ada", note{"before"}, task.In(0)))
		w.work(p, ringing())
		soon := w.schedule(p, ring.New("ada", note{"soon"}, task.In(300*time.Millisecond)))
		many := w.schedule(p, count.New("bob", note{"many"}, task.In(10*time.Millisecond)))
		for _, made := range []task.Task{before, soon, many} {
			w.await(p, made.ID, task.Done)
		}
		w.once(p, before, soon, many)
	})
}

func TestMovesAndCancels(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		p := w.pipeline(embedded.Config{})
		w.work(p, ringing())
		far := w.schedule(p, ring.New("ada", note{"far"}, task.In(time.Hour)))
		sped := w.schedule(p, ring.New("ada", note{"sped"}, task.In(time.Hour)))
		gone, delay := w.cancelled(p)
		_, err := p.Reschedule(ctx, far.ID, task.In(100*time.Millisecond))
		pipelinetest.Must(t, err)
		_, err = p.Shift(ctx, sped.ID, -2*time.Hour)
		pipelinetest.Must(t, err)
		w.await(p, far.ID, task.Done)
		w.await(p, sped.ID, task.Done)
		w.once(p, far, sped)
		if _, err := p.Cancel(ctx, far.ID); !errors.Is(err, task.ErrAlreadyDone) {
			t.Errorf("got %v for a cancel after the effect, want %v", err, task.ErrAlreadyDone)
		}
		later := w.schedule(p, ring.New("ada", note{"later"}, task.In(2*delay)))
		w.await(p, later.ID, task.Done) // long after the cancelled task's due time
		if n := w.number(p, "SELECT COUNT(*) FROM effects WHERE task_id = ?", gone.ID.String()); n != 0 {
			t.Errorf("got %d effects of a cancelled task", n)
		}
	})
}

// cancelled returns a task that was cancelled, and how long before its due time. On a slow machine the first task may
// fire before.
func (w *world) cancelled(p *embedded.Pipeline) (task.Task, time.Duration) {
	w.t.Helper()
	for delay := 200 * time.Millisecond; ; delay *= 4 {
		gone := w.schedule(p, ring.New("ada", note{"gone"}, task.In(delay)))
		_, err := p.Cancel(w.t.Context(), gone.ID)
		if !errors.Is(err, task.ErrAlreadyDone) {
			pipelinetest.Must(w.t, err)
			return gone, delay
		}
	}
}

// A mass change is carried out, also beside an index that is absent.
func TestCarriesOutOperations(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		p := w.pipeline(embedded.Config{})
		w.work(p, ringing())
		far := w.schedule(p, ring.New("ada", note{"far"}, task.In(time.Hour)))
		o, err := p.Bulk(ctx, task.Operation{Verb: task.VerbShift, By: -2 * time.Hour, Filter: task.Filter{Kind: ring.Name()}})
		pipelinetest.Must(t, err)
		w.await(p, far.ID, task.Done)
		w.once(p, far)
		pipelinetest.Await(t, "the end of the operation", func() bool {
			o, err = p.Operation(ctx, o.ID)
			pipelinetest.Must(t, err)
			return o.State == task.OperationDone
		})
	})
}

func TestKeys(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		p := w.pipeline(embedded.Config{})
		w.work(p, ringing())
		first := w.schedule(p, ring.New("ada", note{"first"}, task.In(time.Hour), task.Key("k")))
		if again := w.schedule(p, ring.New("ada", note{"again"}, task.In(0), task.Key("k"))); again.ID != first.ID {
			t.Error("a pending key was taken twice")
		}
		if moved := w.schedule(p, ring.New("ada", note{"moved"}, task.In(0), task.KeyMove("k"))); moved.ID != first.ID {
			t.Error("a pending key was taken twice")
		}
		w.await(p, first.ID, task.Done)
		if next := w.schedule(p, ring.New("ada", note{"next"}, task.In(0), task.Key("k"))); next.ID == first.ID {
			t.Error("the key was not freed by the end of its task")
		}
		only := w.schedule(p, ring.New("ada", note{"only"}, task.In(0), task.Once("o")))
		w.await(p, only.ID, task.Done)
		if again := w.schedule(p, ring.New("ada", note{"only again"}, task.In(0), task.Once("o"))); again.ID != only.ID {
			t.Error("a task that is to be once was made twice")
		}
		w.once(p, first, only)
	})
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		p := w.pipeline(embedded.Config{})
		mux := worker.NewMux()
		worker.Handle(mux, ring, func(ctx context.Context, tx *worker.Tx, b worker.Task[note]) error {
			if err := effect(ctx, tx, b); err != nil {
				return err
			}
			switch {
			case b.Payload.Word == "snooze" && b.Version < 3:
				return worker.Snooze(50 * time.Millisecond)
			case b.Payload.Word == "discard":
				return worker.Discard(errors.New("nobody there"))
			case b.Payload.Word == "retry" && b.Attempt < 2, b.Payload.Word == "fail":
				return errors.New("rope torn")
			}
			return nil
		})
		w.work(p, mux)
		snoozed := w.schedule(p, ring.New("ada", note{"snooze"}, task.In(0)))
		discarded := w.schedule(p, ring.New("bob", note{"discard"}, task.In(0)))
		retried := w.schedule(p, ring.New("cyd", note{"retry"}, task.In(0)))
		failed := w.schedule(p, ring.New("dan", note{"fail"}, task.In(0)))
		// On a slow machine a look may find the task late, and charge it before its last run.
		if row := w.await(p, snoozed.ID, task.Done); row.Attempt > 1 || row.LastError != "" {
			t.Errorf("snoozed: got %d attempts and %q, want none for the snooze", row.Attempt, row.LastError)
		}
		if row := w.await(p, discarded.ID, task.Dead); row.Attempt != 1 || row.LastError != "nobody there" {
			t.Errorf("discarded: got %d attempts and %q", row.Attempt, row.LastError)
		}
		if row := w.await(p, retried.ID, task.Done); row.Attempt != 2 {
			t.Errorf("retried: got %d attempts, want 2", row.Attempt)
		}
		if row := w.await(p, failed.ID, task.Dead); row.Attempt != 3 || row.LastError != "rope torn" {
			t.Errorf("failed: got %d attempts and %q, want 3", row.Attempt, row.LastError)
		}
		w.once(p, snoozed, retried)
		if n := w.number(p, "SELECT COUNT(*) FROM effects"); n != 2 {
			t.Errorf("got %d effects, want 2: those of failed tries must be undone", n)
		}
	})
}

func TestWorkIsRefused(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		p := w.pipeline(embedded.Config{})
		if err := p.Work(ctx, nil); err == nil || !strings.Contains(err.Error(), "mux") {
			t.Errorf("got %v without a mux", err)
		}
		stop := w.work(p, ringing())
		w.await(p, w.schedule(p, ring.New("ada", note{"x"}, task.In(0))).ID, task.Done)
		if err := p.Work(ctx, ringing()); !errors.Is(err, embedded.ErrWorked) {
			t.Errorf("got %v for a second Work, want %v", err, embedded.ErrWorked)
		}
		pipelinetest.Must(t, stop())
		if err := p.Work(ctx, ringing()); !errors.Is(err, embedded.ErrWorked) {
			t.Errorf("got %v for Work after Work, want %v", err, embedded.ErrWorked)
		}
		other := w.pipeline(embedded.Config{})
		if err := other.Work(ctx, worker.NewMux()); err == nil || !strings.Contains(err.Error(), "handler") {
			t.Errorf("got %v for a mux without handlers", err)
		}
		third := w.pipeline(embedded.Config{})
		pipelinetest.Must(t, third.Close(ctx))
		if err := third.Work(ctx, ringing()); !errors.Is(err, embedded.ErrClosed) {
			t.Errorf("got %v for Work after Close, want %v", err, embedded.ErrClosed)
		}
	})
}

// A pipeline stores tasks before Work is called; Close during Work ends Work.
func TestClose(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		idle := w.pipeline(embedded.Config{})
		kept := w.schedule(idle, ring.New("ada", note{"kept"}, task.In(0)))
		pipelinetest.Must(t, idle.Close(ctx))
		pipelinetest.Must(t, idle.Close(ctx))

		p := w.pipeline(embedded.Config{})
		ended := make(chan error, 1)
		mux := worker.NewMux()
		worker.Handle(mux, ring, effect)
		began, finished := make(chan struct{}), atomic.Bool{}
		begin := sync.OnceFunc(func() { close(began) })
		worker.HandleBatch(mux, count, func(context.Context, *worker.Tx, []worker.Task[note]) error {
			begin()
			time.Sleep(300 * time.Millisecond)
			finished.Store(true)
			return nil
		})
		go func() { ended <- p.Work(context.WithoutCancel(ctx), mux) }()
		w.await(p, kept.ID, task.Done)
		w.once(p, kept)
		w.schedule(p, count.New("ada", note{"under way"}, task.In(0)))
		<-began
		pipelinetest.Must(t, p.Close(ctx))
		if !finished.Load() {
			t.Error("Close returned before Work")
		}
		select {
		case err := <-ended:
			pipelinetest.Must(t, err)
		case <-time.After(time.Minute): // the goroutine with Work's answer may need time to pass it on
			t.Error("Work goes on after Close")
		}
	})
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		reg := prometheus.NewRegistry()
		p := w.pipeline(embedded.Config{Metrics: reg})
		w.work(p, ringing())
		w.await(p, w.schedule(p, ring.New("ada", note{"x"}, task.In(0))).ID, task.Done)
		families, err := reg.Gather()
		pipelinetest.Must(t, err)
		names := map[string]int{}
		for _, f := range families {
			names[f.GetName()] = len(f.GetMetric())
		}
		if names["duetime_fire_lag_seconds"] != 2 {
			t.Errorf("got %v", names)
		}
	})
}

func TestConfigIsRefused(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]embedded.Config{
		"Shards: -1":                       {Shards: -1},
		"Batch: -5":                        {Batch: -5},
		"Concurrency":                      {Concurrency: -1},
		"HandlerTimeout":                   {HandlerTimeout: -time.Second},
		"Drain: 1s is below":               {Drain: time.Second},
		"Drain in ms: -1000":               {Drain: -time.Second},
		"Retention":                        {Retention: -time.Hour},
		"RetentionByKind of ping":          {RetentionByKind: map[string]time.Duration{"ping": 59 * time.Second}},
		`Namespace and Queues: "{x}" must`: {Namespace: "{x}"},
		`"a:b" must`:                       {Queues: []string{"a:b"}},
	} {
		if _, err := embedded.OpenSQLite(t.Context(), t.TempDir()+"/x.db", cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
		if _, err := embedded.OpenMySQL(t.Context(), "root@tcp(127.0.0.1:1)/x", cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

func TestOpenFails(t *testing.T) {
	t.Parallel()
	w := &world{t: t}
	dsn := pipelinetest.MySQL(t).NewSchema(t)
	w.open = func(ctx context.Context, cfg embedded.Config) (*embedded.Pipeline, error) {
		return embedded.OpenMySQL(ctx, dsn, cfg)
	}
	w.pipeline(embedded.Config{Namespace: "ours"})
	if _, err := embedded.OpenMySQL(t.Context(), dsn, embedded.Config{Namespace: "theirs"}); err == nil || !strings.Contains(err.Error(), "ours") {
		t.Errorf("got %v for a schema of another namespace", err)
	}
	if _, err := embedded.OpenMySQL(t.Context(), "root@tcp(127.0.0.1:1)/x", embedded.Config{}); err == nil {
		t.Error("got a pipeline without a server")
	}
	if _, err := embedded.OpenMySQL(t.Context(), "no dsn", embedded.Config{}); err == nil || !strings.Contains(err.Error(), "dsn") {
		t.Errorf("got %v for a bad DSN", err)
	}
	if _, err := embedded.OpenSQLite(t.Context(), t.TempDir()+"/missing/x.db", embedded.Config{}); err == nil {
		t.Error("got a pipeline in a folder that is not there")
	}
}
