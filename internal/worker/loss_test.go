package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/transition"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// overfill writes more than the table small, in memory, has room for.
var overfill = "INSERT INTO small SELECT REPEAT('x', 255) FROM " + pipelinetest.Numbers(1, 1000)

// quickly retries within milliseconds.
var quickly = task.Retry(task.Backoff{Min: time.Millisecond, Max: 10 * time.Millisecond})

// poison is a kind whose handler loses the connection of its transaction in each call.
var poison = task.NewKind[payload]("poison", task.MaxAttempts(3), quickly)

// cutOff are ways in which a handler makes the server end its connection, or seem away.
var cutOff = map[string]func(ctx context.Context, tx *worker.Tx) error{
	"KILL of its connection": func(ctx context.Context, tx *worker.Tx) error {
		_, err := tx.ExecContext(ctx, "KILL CONNECTION_ID()")
		return err
	},
	"KILL, passed over": func(ctx context.Context, tx *worker.Tx) error {
		_, _ = tx.ExecContext(ctx, "KILL CONNECTION_ID()")
		return nil
	},
	"a full table in memory": func(ctx context.Context, tx *worker.Tx) error {
		_, err := tx.ExecContext(ctx, overfill)
		return err
	},
	"idle for too long": func(ctx context.Context, tx *worker.Tx) error {
		_, err := tx.ExecContext(ctx, "SET SESSION wait_timeout = 1")
		time.Sleep(1500 * time.Millisecond) // what it does wrong
		return err
	},
	"rows left open": func(ctx context.Context, tx *worker.Tx) error {
		_, err := tx.QueryContext(ctx, "SELECT seq FROM "+pipelinetest.Numbers(1, 1000))
		_, next := tx.ExecContext(ctx, "DO 1")
		return errors.Join(err, next)
	},
	"an error that says so": func(ctx context.Context, tx *worker.Tx) error {
		_, err := tx.ExecContext(ctx, "SIGNAL SQLSTATE '08S01' SET MYSQL_ERRNO = 1053")
		return err
	},
}

// Tasks whose handlers lose their connection are dead after their attempts, their neighbours are done and uncharged, and
// nobody takes MySQL for away.
func TestHandlerThatLosesItsConnectionIsCharged(t *testing.T) {
	t.Parallel()
	for name, cut := range cutOff {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.store.Exec("CREATE TABLE small (text CHAR(255)) ENGINE=MEMORY MAX_ROWS=100")
			var calls atomic.Int64
			mux := worker.NewMux()
			worker.Handle(mux, meal, effect)
			worker.Handle(mux, poison, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
				calls.Add(1)
				return errors.Join(effect(ctx, tx, tk), cut(ctx, tx))
			})
			stop := w.run(w.worker(mux, engine.Config{}))
			specs := []task.Spec{poison.New("poison", payload{}, task.In(time.Second))}
			for i := range 40 {
				specs = append(specs, meal.New(fmt.Sprintf("owner%d", i), payload{}, task.In(time.Second)))
			}
			tasks := w.schedule(specs...)
			w.publish(tasks...)
			pipelinetest.Await(t, "the neighbours are done", func() bool { return w.settled("meal", "done") == 40 })
			for row := w.store.Row(tasks[0].ID); row.State == task.Pending; row = w.store.Row(row.ID) {
				attempt := row.Attempt
				w.publish(row) // as the index would: it was put there
				pipelinetest.Await(t, "another attempt", func() bool {
					row = w.store.Row(row.ID)
					return row.State != task.Pending || row.Attempt > attempt
				})
			}
			row := w.store.Row(tasks[0].ID)
			want(t, "state", row.State, task.Dead)
			want(t, "attempts", row.Attempt, 3)
			if n := calls.Load(); n < 3 || n > 3*4 {
				t.Errorf("%d calls in 3 attempts", n)
			}
			t.Logf("%d calls, last error: %s", calls.Load(), row.LastError)
			want(t, "pauses", w.metric("duetime_worker_pauses_total"), 0)
			want(t, "let go", w.metric("duetime_hints_let_go_total"), 0)
			want(t, "stop", stop(), nil)
			want(t, "effects", w.store.Number("SELECT COUNT(*) FROM effects"), 40)
			want(t, "charged neighbours", w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE kind = 'meal' AND attempt > 0"), 0)
		})
	}
}

// Results that a handler leaves open are closed with it: the end of its context would cut off its neighbours' transaction.
func TestRowsLeftOpenHarmNobody(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		mux := worker.NewMux()
		worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
			if err := effect(ctx, tx, tk); err != nil {
				return err
			}
			switch query := "SELECT 1 UNION ALL SELECT 2"; tk.Payload.Word {
			case "1":
				_, _ = tx.QueryContext(ctx, query) //nolint:rowserrcheck,sqlclosecheck // what it does wrong
			case "2":
				_ = tx.QueryRowContext(ctx, query)
			case "3":
				_, _ = tx.QueryxContext(ctx, query) //nolint:sqlclosecheck // what it does wrong
			case "4":
				_ = tx.QueryRowxContext(ctx, query)
			}
			return nil
		})
		wk := w.worker(mux, engine.Config{})
		tasks := w.due(meal, 6)
		got := w.pass(wk, tasks...)
		for _, made := range tasks {
			want(t, fmt.Sprintf("result (%v)", got[made.ID].Err), got[made.ID].Result, "done")
		}
		want(t, "batches tried again", w.metric("duetime_batches_retried_total"), 0)
	})
}

// A handler's own context cuts the transaction off, and it passes that over: the neighbour that finds out is not charged.
func TestOwnContextOfAHandlerIsItsOwnFault(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		if tk.Payload.Word == "1" {
			short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			_, _ = tx.ExecContext(short, "DO SLEEP(1)") // the server goes on with it, and holds the locks
			return nil
		}
		return effect(ctx, tx, tk)
	})
	stop := w.run(w.worker(mux, engine.Config{}))
	tasks := w.dueIn(meal, 5, time.Second)
	w.publish(tasks...)
	pipelinetest.Await(t, "all are settled", func() bool { return w.settled("meal", "done") == 4 && w.settled("meal", "failed") == 1 })
	want(t, "stop", stop(), nil)
	for i, made := range tasks {
		attempt := 0
		if i == 1 {
			attempt = 1
		}
		want(t, fmt.Sprintf("%d: attempt", i), w.store.Row(made.ID).Attempt, attempt)
	}
}

// A limit of the server's on one statement ends that statement only: the handler has failed as by any error.
func TestHandlerStoppedByTheServersLimitHasFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	statement := "SELECT /*+ MAX_EXECUTION_TIME(50) */ COUNT(*) FROM " + pipelinetest.Numbers(1, 5000) + " a, " + pipelinetest.Numbers(1, 5000) + " b"
	if pipelinetest.MySQL(t).Product() == "mariadb" {
		statement = "SET STATEMENT max_statement_time=0.05 FOR SELECT SLEEP(5)"
	}
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		if tk.Payload.Word == "1" {
			_, err := tx.ExecContext(ctx, statement)
			if err == nil {
				t.Error("the limit did not stop the statement")
			}
			return err
		}
		return effect(ctx, tx, tk)
	})
	tasks := w.due(meal, 5)
	got := w.pass(w.worker(mux, engine.Config{}), tasks...)
	for i, made := range tasks {
		result := "done"
		if i == 1 {
			result = "failed"
		}
		want(t, fmt.Sprintf("%d: result (%v)", i, got[made.ID].Err), got[made.ID].Result, result)
	}
	want(t, "pauses", w.metric("duetime_worker_pauses_total"), 0)
}

// The mail is sent, and the transaction is lost before the commit: it is not sent again for nothing.
func TestOutsideHandlerIsNotRepeatedWithoutACharge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mails atomic.Int64
	mail := task.NewKind[payload]("mail", task.MaxAttempts(3), quickly)
	mux := worker.NewMux()
	worker.HandleOutside(mux, mail, func(context.Context, worker.Task[payload]) error {
		mails.Add(1)
		w.killOthers()
		return nil
	})
	wk := w.worker(mux, engine.Config{})
	made := w.due(mail, 1)[0]
	for row := made; row.State == task.Pending; row = w.store.Row(made.ID) {
		before := mails.Load()
		_, _ = wk.Pass(t.Context(), worldtest.Hints(row))
		want(t, "mails in an attempt", mails.Load()-before <= 1, true)
		if attempt := w.store.Row(made.ID).Attempt; int64(attempt) != mails.Load() {
			t.Fatalf("%d mails, %d attempts", mails.Load(), attempt)
		}
	}
	want(t, "mails", mails.Load(), 3)
	want(t, "state", w.store.Row(made.ID).State, task.Dead)
}

// killOthers ends all connections to the schema but the one that it uses.
func (w *world) killOthers() {
	w.t.Helper()
	ctx := context.Background()
	conn, err := w.store.DB().Connx(ctx)
	pipelinetest.Must(w.t, err)
	defer func() { _ = conn.Close() }()
	var ids []int64
	pipelinetest.Must(w.t, conn.SelectContext(ctx, &ids,
		"SELECT ID FROM "+pipelinetest.Connections(w.t)+" WHERE DB = DATABASE() AND ID <> CONNECTION_ID()"))
	for _, id := range ids {
		_, _ = conn.ExecContext(ctx, fmt.Sprintf("KILL %d", id)) // it may be gone by itself
	}
}

// One task loses its connection in each call while 200 others a second become due: their lag must not suffer.
func TestNeighboursOfALostConnectionAreOnTime(t *testing.T) {
	t.Parallel()
	var healthy, beside time.Duration
	t.Run("at the same time", func(t *testing.T) {
		t.Run("alone", func(t *testing.T) { t.Parallel(); healthy = lagBeside(t, 0) })
		t.Run("beside", func(t *testing.T) { t.Parallel(); beside = lagBeside(t, 1) })
	})
	t.Logf("lag p99 of 200 tasks a second: %v alone, %v beside a handler that kills its connection", healthy, beside)
	if most := 2*healthy + time.Second; beside > most { // slack for a machine that does other things
		t.Errorf("lag p99 %v beside a handler that kills its connection, %v without", beside, healthy)
	}
}

// lagBeside returns the lag p99 of 200 tasks a second for five seconds, beside so many poisoned ones.
func lagBeside(t *testing.T, poisoned int) time.Duration {
	t.Helper()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	worker.Handle(mux, poison, func(ctx context.Context, tx *worker.Tx, _ worker.Task[payload]) error {
		_, err := tx.ExecContext(ctx, "KILL CONNECTION_ID()")
		return err
	})
	stop := w.run(w.worker(mux, engine.Config{Patience: limit}))
	var specs []task.Spec
	for i := range 990 {
		specs = append(specs, meal.New(fmt.Sprintf("owner%d", i), payload{}, task.In(2*time.Second+time.Duration(i)*5*time.Millisecond)))
	}
	for i := range poisoned {
		specs = append(specs, poison.New(fmt.Sprintf("poison%d", i), payload{}, task.In(3*time.Second)))
	}
	made := w.schedule(specs...)
	w.publish(made...)
	published := map[int64]bool{made[len(made)-1].Version: true}
	pipelinetest.Await(t, "all are done", func() bool {
		if row := w.store.Row(made[len(made)-1].ID); row.Kind == "poison" && row.State == task.Pending && !published[row.Version] {
			published[row.Version] = true
			w.publish(row)
		}
		return w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 0") == 0
	})
	pipelinetest.Must(t, stop())
	want(t, "dead", w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 3 AND attempt = 3"), poisoned)
	var lags []int64
	pipelinetest.Must(t, w.store.DB().Select(&lags, "SELECT finished_at - due_at FROM duetime_tasks WHERE kind = 'meal' AND state = 1"))
	want(t, "done", len(lags), 990)
	slices.Sort(lags)
	return time.Duration(lags[len(lags)*99/100]) * time.Millisecond
}

// A handler writes what its server refuses with each COMMIT, in words that leave open whether it took effect.
func TestHandlerWhoseCommitIsNeverClearIsCharged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	worker.Handle(mux, poison, effect)
	wk := w.workerOn(&refusing{lossy{Store: w.store}}, mux, engine.Config{})
	tasks := w.schedule(poison.New("poison", payload{}, task.In(0)), meal.New("a", payload{}, task.In(0)), meal.New("b", payload{}, task.In(0)))
	pipelinetest.Await(t, "the poison is dead", func() bool {
		w.pass(wk, w.store.Row(tasks[0].ID), tasks[1], tasks[2])
		return w.store.Row(tasks[0].ID).State == task.Dead
	})
	want(t, "attempts", w.store.Row(tasks[0].ID).Attempt, 3)
	want(t, "its effects", w.effects(tasks[0].ID), 0)
	for _, made := range tasks[1:] {
		want(t, "state", w.store.Row(made.ID).State, task.Done)
		want(t, "attempts of a neighbour", w.store.Row(made.ID).Attempt, 0)
		want(t, "effects", w.effects(made.ID), 1)
	}
}

// refusing is a store that loses each transaction in which a poisoned task is done.
type refusing struct{ lossy }

func (r *refusing) Write(ctx context.Context, q sqlx.ExtContext, changes []transition.Change) error {
	err := r.Store.Write(ctx, q, changes)
	if err != nil || !slices.ContainsFunc(changes, func(c transition.Change) bool { return c.After.State == task.Done && c.After.Kind == "poison" }) {
		return err
	}
	return q.(*sqlx.Tx).Rollback()
}
