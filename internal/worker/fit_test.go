package worker_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// connPool is what sqlc's DBTX and gorm.ConnPool ask of a handle; bun.IConn and ent's ExecQuerier ask less.
type connPool interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
	ExecContext(ctx context.Context, query string, args ...interface{}) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...interface{}) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...interface{}) *sql.Row
}

var _ connPool = (*worker.Tx)(nil)

func TestPreparedStatementInHandler(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		s, err := tx.PrepareContext(ctx, "INSERT INTO effects (task_id, word) VALUES (?, ?)") //nolint:sqlclosecheck // it ends with the handler
		if err != nil {
			return err
		}
		_, err = s.ExecContext(ctx, tk.ID.String(), tk.Payload.Word)
		return err
	})
	tasks := w.due(meal, 3)
	w.pass(w.worker(mux, engine.Config{}), tasks...)
	for _, made := range tasks {
		want(t, "state", w.store.Row(made.ID).State, task.Done)
		want(t, "effects", w.effects(made.ID), 1)
	}
}

// A statement that a handler left to somebody else must not run in the transaction of the others of its batch.
func TestPreparedStatementEndsWithItsHandler(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var left *sql.Stmt
	var late error
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		if tk.Payload.Word == "0" {
			s, err := tx.PrepareContext(ctx, "INSERT INTO effects (task_id, word) VALUES ('late', ?)") //nolint:sqlclosecheck // it ends with the handler
			left = s
			return errors.Join(err, effect(ctx, tx, tk))
		}
		if left != nil {
			_, late = left.ExecContext(context.Background(), tk.Payload.Word)
			left = nil
		}
		return effect(ctx, tx, tk)
	})
	tasks := w.due(meal, 3)
	w.pass(w.worker(mux, engine.Config{}), tasks...)
	want(t, "late effects", w.store.Number("SELECT COUNT(*) FROM effects WHERE task_id = 'late'"), 0)
	want(t, "an error", late != nil, true)
	for _, made := range tasks {
		want(t, "state", w.store.Row(made.ID).State, task.Done)
		want(t, "effects", w.effects(made.ID), 1)
	}
}

// A prepared statement ends with the handler's time, whatever context it is given.
func TestPreparedStatementEndsWithTheHandlersTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, _ worker.Task[payload]) error {
		s, err := tx.PrepareContext(ctx, "SELECT SLEEP(?)") //nolint:sqlclosecheck // it ends with the handler
		if err != nil {
			return err
		}
		var n int
		return s.QueryRowContext(context.Background(), 600).Scan(&n)
	})
	cfg := engine.Config{HandlerTimeout: 200 * time.Millisecond, BatchTime: 100 * time.Millisecond, Patience: impatient}
	stop := w.run(w.worker(mux, cfg))
	made := w.due(meal, 1)[0]
	w.publish(made)
	began := time.Now()
	pipelinetest.Await(t, "charged", func() bool { return w.settled("meal", "failed") == 1 })
	if took := time.Since(began); took > 15*time.Second { // the driver's own limit is above 20 s
		t.Errorf("the handler was waited for %v", took)
	}
	want(t, "attempts", w.store.Row(made.ID).Attempt, 1)
	want(t, "abandoned", w.metric("duetime_handlers_abandoned_total"), 0)
	want(t, "stop", stop(), nil)
}

// A handler whose nested transaction fails goes on without it. What its first look at tasks has marked done within it, and its
// own move within it, are as they were.
func TestNestedTransactionInHandler(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		var tasks []task.Task
		var follow task.Task
		mux := worker.NewMux()
		worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
			if tk.Payload.Word == "1" {
				if err := nested(ctx, tx, func() (err error) {
					if _, err = tx.Cancel(ctx, tasks[0].ID); !errors.Is(err, task.ErrAlreadyDone) {
						return fmt.Errorf("cancel of one that has run: %w", err)
					}
					if _, err = tx.Shift(ctx, tk.ID, time.Hour); err != nil {
						return err
					}
					if _, err = tx.Cancel(ctx, tasks[2].ID); err != nil {
						return err
					}
					follow, err = tx.Schedule(ctx, meal.New("ann", payload{}, task.In(time.Hour)))
					return err
				}); err != nil {
					return err
				}
			}
			return effect(ctx, tx, tk)
		})
		tasks = w.due(meal, 3)
		wk := w.worker(mux, engine.Config{})
		for range 3 { // whatever is left is run again
			w.pass(wk, tasks...)
		}
		for i, made := range tasks {
			row := w.store.Row(made.ID)
			want(t, fmt.Sprintf("%d: state", i), row.State, task.Done)
			want(t, fmt.Sprintf("%d: effects", i), w.effects(made.ID), 1)
			want(t, fmt.Sprintf("%d: attempts", i), row.Attempt, 0)
		}
		want(t, "tasks", w.store.Number("SELECT COUNT(*) FROM duetime_tasks"), 3)
		want(t, "puts of what never was", len(w.index.PutsOf(follow.ID)), 0)
		want(t, "lines of what never was", w.store.Number("SELECT COUNT(*) FROM duetime_history"), 0)
	})
}

// nested rolls back to where it began, as GORM does for a nested transaction whose function fails.
func nested(ctx context.Context, tx *worker.Tx, fn func() error) error {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT sp824633720832"); err != nil {
		return err
	}
	if err := fn(); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT sp824633720832")
	return err
}
