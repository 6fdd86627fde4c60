package worker_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// A caller that locks a business row before it settles meets a worker that locks in the other order: one of the two begins anew, the
// task has one effect, and the caller reads it.
func TestReaderThatLocksFirst(t *testing.T) {
	t.Parallel()
	w := onStore(t, worldtest.NewStore(t, "test", store.Options{LockWait: limit}))
	w.store.Exec("INSERT INTO counters (name, n) VALUES ('pet', 0)")
	kind, mux := task.NewKind[payload]("march"), worker.NewMux()
	worker.Handle(mux, kind, func(ctx context.Context, tx *worker.Tx, _ worker.Task[payload]) error {
		_, err := tx.ExecContext(ctx, "UPDATE counters SET n = n + 1 WHERE name = 'pet'")
		return err
	})
	row := w.due(kind, 1)[0]
	wk, c := w.worker(mux, engine.Config{}), w.reads(mux, engine.Config{})
	passed := make(chan struct{})
	tries, read := 0, 0
	err := c.InTx(t.Context(), func(tx *schedule.Tx) error {
		if tries++; tries == 1 {
			if err := tx.GetContext(t.Context(), &read, "SELECT n FROM counters WHERE name = 'pet' FOR UPDATE"); err != nil {
				return err
			}
			go func() {
				defer close(passed)
				w.passAll(wk, row)
			}()
			pipelinetest.Await(t, "the worker waits for the business row", func() bool { return pipelinetest.LockWaits(t, w.store.DB()) > 0 })
		}
		if _, err := tx.SettleDue(t.Context(), row.Owner); err != nil {
			return err
		}
		return tx.GetContext(t.Context(), &read, "SELECT n FROM counters WHERE name = 'pet'")
	})
	pipelinetest.Must(t, err)
	<-passed
	if n := w.store.Number("SELECT n FROM counters WHERE name = 'pet'"); read != 1 || n != 1 || w.store.Row(row.ID).State != task.Done {
		t.Errorf("read %d, and in the end there are %d effects of a task that is %v; want one", read, n, w.store.Row(row.ID).State)
	}
}

// A task that somebody else has locked for longer than a session waits can't be settled now.
func TestReaderMeetsALockedTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kind, mux := task.NewKind[payload]("march"), worker.NewMux()
	worker.Handle(mux, kind, effect)
	c, row := w.reads(mux, engine.Config{}), w.due(kind, 1)[0]
	tx, err := w.store.Begin(t.Context())
	pipelinetest.Must(t, err)
	_, err = w.store.Lock(t.Context(), tx, []task.ID{row.ID})
	pipelinetest.Must(t, err)
	err = c.Fresh(t.Context(), row.Owner, func(*schedule.Tx, schedule.Settled) error {
		t.Error("read")
		return nil
	})
	if !errors.Is(err, task.ErrRunning) {
		t.Errorf("got %v, want %v", err, task.ErrRunning)
	}
	pipelinetest.Must(t, tx.Rollback())
	if got := w.fresh(c, row.Owner); got.Done != 1 || w.effects(row.ID) != 1 {
		t.Errorf("afterwards: settled %+v, %d effects", got, w.effects(row.ID))
	}
}

// A reader settles a bounded number of tasks, and says that there are more.
func TestReaderIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kind, mux := task.NewKind[payload]("march"), worker.NewMux()
	worker.Handle(mux, kind, effect)
	c := w.reads(mux, engine.Config{})
	specs := make([]task.Spec, 130)
	for i := range specs {
		specs[i] = kind.New("ann", payload{}, task.In(0))
	}
	w.schedule(specs...)
	done := 0
	for reads := 1; ; reads++ {
		got := w.fresh(c, "ann")
		done += got.Done
		if got.Done > 100 || got.More != (done < len(specs)) {
			t.Errorf("read %d settled %+v, %d so far", reads, got, done)
		}
		if !got.More {
			break
		}
	}
	if n := w.store.Number("SELECT COUNT(*) FROM effects"); done != len(specs) || n != done {
		t.Errorf("%d tasks are done, with %d effects; want %d", done, n, len(specs))
	}
}

// A handler gets a deadlock in a transaction that the service has begun on a handle of its own, and swallows it: what it does
// afterwards must not commit by itself, for a worker will run the task.
func TestReaderInALostJoin(t *testing.T) {
	t.Parallel()
	for name, meet := range map[string]func(ctx context.Context, tx *worker.Tx, text string) error{
		"statement": func(ctx context.Context, tx *worker.Tx, text string) error {
			_, err := tx.ExecContext(ctx, text)
			return err
		},
		"row": func(ctx context.Context, tx *worker.Tx, text string) error {
			return tx.QueryRowContext(ctx, text).Scan(new(int))
		},
		"prepared": func(ctx context.Context, tx *worker.Tx, text string) error {
			s, err := tx.PrepareContext(ctx, text)
			if err != nil {
				return fmt.Errorf("prepare: %w", err)
			}
			defer func() { _ = s.Close() }()
			_, err = s.ExecContext(ctx)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.store.Exec("INSERT INTO counters VALUES ('pet', 0)")
			begin, ended := w.deadlock()
			kind, mux := task.NewKind[payload]("march"), worker.NewMux()
			worker.Handle(mux, kind, func(ctx context.Context, tx *worker.Tx, m worker.Task[payload]) error {
				begin(ctx, tx)
				if err := meet(ctx, tx, "SELECT n FROM counters WHERE name = 'b' FOR UPDATE"); !schedule.IsRetryable(err) {
					t.Errorf("the deadlock came out as %v", err)
				}
				_, err := tx.ExecContext(ctx, "UPDATE counters SET n = n + 1 WHERE name = 'pet'")
				want(t, "a statement is refused", errors.Is(err, schedule.ErrRolledBack), true)
				_, err = tx.Schedule(ctx, kind.New(m.Owner, payload{}, task.In(time.Hour)))
				want(t, "a task is refused", errors.Is(err, schedule.ErrRolledBack), true)
				return nil
			})
			c, row := w.reads(mux, engine.Config{}), w.due(kind, 1)[0]
			j := w.join(c)
			_, err := j.SettleDue(t.Context(), row.Owner)
			pipelinetest.Must(t, <-ended)
			if !errors.Is(err, schedule.ErrRolledBack) || !schedule.IsRetryable(err) {
				t.Errorf("settled: %v, want a retryable %v", err, schedule.ErrRolledBack)
			}
			if err := j.Commit(t.Context()); !errors.Is(err, schedule.ErrRolledBack) {
				t.Errorf("commit: %v, want %v", err, schedule.ErrRolledBack)
			}
			want(t, "effects", w.store.Number("SELECT n FROM counters WHERE name = 'pet'"), 0)
			want(t, "tasks that stand", w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 0"), 1)
		})
	}
}

// join takes part in a transaction that a service has begun on a handle of its own.
func (w *world) join(c *schedule.Client) *schedule.Joined {
	w.t.Helper()
	cfg, err := mysql.ParseDSN(w.store.DSN)
	pipelinetest.Must(w.t, err)
	cfg.Params = map[string]string{pipelinetest.IsolationVariable(w.t): "'READ-COMMITTED'"}
	db, err := sql.Open("mysql", cfg.FormatDSN())
	pipelinetest.Must(w.t, err)
	w.t.Cleanup(func() { _ = db.Close() })
	tx, err := db.BeginTx(w.t.Context(), nil)
	pipelinetest.Must(w.t, err)
	return c.Join(tx)
}

// A statement that a handler sends with a context that has ended does not run, and ends nothing.
func TestReaderInAJoinWithAnEndedContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kind, mux := task.NewKind[payload]("march"), worker.NewMux()
	worker.Handle(mux, kind, func(ctx context.Context, tx *worker.Tx, m worker.Task[payload]) error {
		over, end := context.WithCancel(ctx)
		end()
		for range 2 {
			if err := effect(over, tx, m); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want %v", err, context.Canceled)
			}
		}
		return effect(ctx, tx, m)
	})
	c, row := w.reads(mux, engine.Config{}), w.due(kind, 1)[0]
	j := w.join(c)
	if got, err := j.SettleDue(t.Context(), row.Owner); err != nil || got.Done != 1 {
		t.Errorf("settled %+v, %v; want one", got, err)
	}
	pipelinetest.Must(t, j.Commit(t.Context()))
	want(t, "effects", w.effects(row.ID), 1)
}
