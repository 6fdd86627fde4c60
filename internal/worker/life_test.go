package worker_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/transition"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

func TestStopLetsRunningHandlersFinish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	running, stopping := make(chan struct{}), make(chan struct{})
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		close(running)
		<-stopping
		return effect(ctx, tx, tk)
	})
	stop := w.run(w.worker(mux, engine.Config{}))
	made := w.due(meal, 1)[0]
	w.publish(made)
	<-running
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	close(stopping)
	want(t, "run", <-ended, nil)
	want(t, "state", w.store.Row(made.ID).State, task.Done)
	want(t, "offsets left", w.explained(time.Now().Add(time.Hour)), false)
}

// A handler goes on for long after the stop: meanwhile others run the tasks of its worker's partitions.
func TestStopLeavesTheGroupWhileAHandlerRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mail := task.NewKind[payload]("mail")
	running, proceed := make(chan struct{}, 10), make(chan struct{})
	release := sync.OnceFunc(func() { close(proceed) })
	defer release()
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	worker.HandleOutside(mux, mail, func(context.Context, worker.Task[payload]) error {
		running <- struct{}{}
		<-proceed
		return nil
	})
	long := engine.Config{Drain: 10 * limit, HandlerTimeout: 10 * limit}
	stop := w.run(w.worker(mux, long))
	slow := w.due(mail, 1)[0]
	w.publish(slow)
	<-running
	stopOther := w.run(w.worker(mux, long))
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	tasks := w.due(meal, 50) // of owners in all partitions
	w.publish(tasks...)
	pipelinetest.Await(t, "the other worker has run all", func() bool { return w.settled("meal", "done") == 50 })
	want(t, "stopped meanwhile", len(ended), 0)
	release()
	want(t, "run", <-ended, nil)
	want(t, "state of the long one", w.store.Row(slow.ID).State, task.Done)
	want(t, "run of the other", stopOther(), nil)
	want(t, "further calls", len(running), 0)
}

func TestStopRollsBackLateHandlersUncharged(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		single := task.NewKind[payload]("single", task.MaxAttempts(1)) // a charge that stayed would be the end of it
		running := make(chan struct{}, 1)
		mux := worker.NewMux()
		worker.Handle(mux, single, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
			if err := effect(ctx, tx, tk); err != nil {
				return err
			}
			running <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		})
		made := w.due(single, 1)[0]
		w.publish(made) // before the worker joins: a suspect, charged beforehand
		// What was charged is given back within half a second or not at all: a busy server may need another stop.
		for range 5 {
			stop := w.run(w.worker(mux, engine.Config{Drain: 50 * time.Millisecond}))
			<-running
			want(t, "run", stop(), nil)
			row := w.store.Row(made.ID)
			want(t, "state", row.State, task.Pending)
			want(t, "effects", w.effects(made.ID), 0)
			want(t, "its offset is kept", w.explained(time.Now().Add(time.Hour)), true)
			if row.Attempt == 0 {
				return
			}
			w.store.Exec("UPDATE duetime_tasks SET attempt = 0, version = version + 1")
			w.publish(w.store.Row(made.ID))
		}
		t.Error("an attempt was charged for good, five times")
	})
}

func TestHandlerThatIgnoresItsTimeIsAbandonedAndCharged(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		free := make(chan struct{})
		t.Cleanup(func() { close(free) })
		var hung atomic.Int64
		mux := worker.NewMux()
		worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
			if err := effect(ctx, tx, tk); err != nil {
				return err // its time may be over already on a slow machine
			}
			if tk.Payload.Word != "0" {
				return nil
			}
			hung.Add(1)
			<-free
			_, err := tx.Cancel(context.Background(), tk.ID) //nolint:contextcheck // A handler that ignores everything.
			if err == nil {
				t.Error("an abandoned handler could change a task")
			}
			return nil
		})
		wk := w.worker(mux, engine.Config{HandlerTimeout: 200 * time.Millisecond, BatchTime: 200 * time.Millisecond})
		tasks := w.due(meal, 3)
		pipelinetest.Await(t, "charged", func() bool {
			w.pass(wk, tasks...)
			return hung.Load() > 0 && w.store.Row(tasks[0].ID).Attempt > 0 && w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 1") == 2
		})
		want(t, "effects", w.store.Number("SELECT COUNT(*) FROM effects"), 2)
		want(t, "effects of the slow one", w.effects(tasks[0].ID), 0)
		want(t, "abandoned", w.metric("duetime_handlers_abandoned_total"), float64(hung.Load()))
	})
}

func TestWorkerGivesUpAfterThreeAbandonedHandlers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	free := make(chan struct{})
	t.Cleanup(func() { close(free) })
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(context.Context, *worker.Tx, worker.Task[payload]) error {
		<-free
		return nil
	})
	wk := w.worker(mux, engine.Config{HandlerTimeout: 50 * time.Millisecond, BatchTime: 50 * time.Millisecond})
	w.publish(w.due(meal, 5)...)
	ended := make(chan error, 1)
	go func() { ended <- wk.Run(t.Context()) }()
	select {
	case err := <-ended:
		want(t, fmt.Sprintf("run: %v", err), errors.Is(err, worker.ErrStuck), true)
	case <-time.After(limit):
		t.Fatal("still running")
	}
}

// Handlers that come back late are charged, but hold nothing any more.
func TestWorkerOutlivesHandlersThatComeBackLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	slow := task.NewKind[payload]("slow", task.MaxAttempts(1))
	var back atomic.Int64
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	worker.Handle(mux, slow, func(ctx context.Context, _ *worker.Tx, _ worker.Task[payload]) error {
		defer back.Add(1)
		<-ctx.Done()
		late := time.NewTimer(2 * time.Second)
		<-late.C
		return nil
	})
	stop := w.run(w.worker(mux, engine.Config{HandlerTimeout: 50 * time.Millisecond, BatchTime: 50 * time.Millisecond, Patience: limit}))
	for n := range int64(4) {
		made := w.due(slow, 1)
		w.publish(made...)
		pipelinetest.Await(t, "dead", func() bool { return w.store.Row(made[0].ID).State == task.Dead })
		pipelinetest.Await(t, "back", func() bool { return back.Load() > n })
	}
	want(t, "abandoned", w.metric("duetime_handlers_abandoned_total") >= 4, true)
	last := w.due(meal, 1)
	w.publish(last...)
	pipelinetest.Await(t, "it works on", func() bool { return w.store.Row(last[0].ID).State == task.Done })
	want(t, "stop", stop(), nil)
}

// A query that runs on with a context of the handler's own ends with the handler's time. The server holds the locks until
// it notices: the failure is remembered that long, and the handler not called again.
func TestQueryEndsWithTheHandlersTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	var calls atomic.Int64
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, _ worker.Task[payload]) error {
		calls.Add(1)
		_, err := tx.ExecContext(context.WithoutCancel(ctx), "SELECT SLEEP(5)")
		return err
	})
	cfg := engine.Config{HandlerTimeout: 100 * time.Millisecond, BatchTime: 100 * time.Millisecond, Patience: impatient}
	stop := w.run(w.worker(mux, cfg))
	made := w.due(meal, 1)[0]
	w.publish(made)
	pipelinetest.Await(t, "charged", func() bool { return w.settled("meal", "failed") == 1 })
	want(t, "attempts", w.store.Row(made.ID).Attempt, 1)
	want(t, "calls", calls.Load(), 1)
	want(t, "abandoned", w.metric("duetime_handlers_abandoned_total"), 0)
	want(t, "stop", stop(), nil)
}

// breakable is a store whose database can be away.
type breakable struct {
	engine.Store
	away atomic.Bool
}

var errGone = errors.New("gone")

func (b *breakable) Begin(ctx context.Context) (*sqlx.Tx, error) {
	if b.away.Load() {
		return nil, errGone
	}
	return b.Store.Begin(ctx)
}

func (b *breakable) Clock(ctx context.Context) (time.Time, error) {
	if b.away.Load() {
		return time.Time{}, errGone
	}
	return b.Store.Clock(ctx)
}

func (b *breakable) Now(ctx context.Context, q sqlx.QueryerContext) (time.Time, error) {
	if b.away.Load() {
		return time.Time{}, errGone
	}
	return b.Store.Now(ctx, q)
}

func (b *breakable) Unavailable(err error) bool {
	return errors.Is(err, errGone) || b.Store.Unavailable(err)
}

func TestDatabaseAwayPausesAndChargesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	b := &breakable{Store: w.store}
	stop := w.run(w.workerOn(b, mux, engine.Config{Patience: impatient}))
	b.away.Store(true)
	tasks := w.due(meal, 20)
	w.publish(tasks...)
	pipelinetest.Await(t, "paused", func() bool { return w.metric("duetime_worker_pauses_total") > 0 })
	until := time.Now().Add(impatient + 500*time.Millisecond)
	pipelinetest.Await(t, "time passes", func() bool { return time.Now().After(until) })
	want(t, "let go", w.metric("duetime_hints_let_go_total"), 0)
	b.away.Store(false)
	pipelinetest.Await(t, "all are done", func() bool {
		return w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 1") == 20
	})
	want(t, "effects", w.store.Number("SELECT COUNT(*) FROM effects"), 20)
	want(t, "stop", stop(), nil)
}

// MySQL has no room for what anybody writes: that is no fault of the handler's, whatever it makes of the error.
func TestFullDiskUnderAHandlerPausesAndChargesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store.Exec("CREATE TABLE small (text CHAR(255)) ENGINE=MEMORY MAX_ROWS=100")
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, _ worker.Task[payload]) error {
		_, err := tx.ExecContext(ctx, overfill)
		return err
	})
	tasks := w.due(meal, 3)
	wk := w.workerOn(&roomless{w.store}, mux, engine.Config{})
	for range 6 { // more often than a handler may lose its connection uncharged
		_, err := wk.Pass(t.Context(), worldtest.Hints(tasks...))
		want(t, "the database is away", err != nil, true)
	}
	for _, made := range tasks {
		want(t, "version", w.store.Row(made.ID).Version, made.Version)
	}
}

// roomless is a store whose history has no room for another line either.
type roomless struct{ engine.Store }

func (r *roomless) Record(ctx context.Context, q sqlx.ExtContext, _ []protocol.Event) error {
	_, err := q.ExecContext(ctx, overfill)
	return err
}

// The handler of another kind can't reach its own server; that says nothing about ours.
func TestHandlersOwnOutageIsItsFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.HandleOutside(mux, meal, func(context.Context, worker.Task[payload]) error {
		return fmt.Errorf("send mail: %w", errGone)
	})
	made := w.due(meal, 1)[0]
	got := w.pass(w.workerOn(&breakable{Store: w.store}, mux, engine.Config{}), made)
	want(t, "result", got[made.ID].Result, "failed")
	want(t, "attempts", w.store.Row(made.ID).Attempt, 1)
}

// The answer to a commit is lost, after it took effect or without.
func TestLostAnswerOfCommitIsResolvedByTheRows(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*sqlx.Tx) error{
		"took effect": func(tx *sqlx.Tx) error { return tx.Commit() },
		"was lost":    func(tx *sqlx.Tx) error { return tx.Rollback() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			mux, follows := worker.NewMux(), task.NewKind[payload]("follows")
			worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, m worker.Task[payload]) error {
				if _, err := tx.Schedule(ctx, follows.New(m.Owner, payload{}, task.In(time.Hour))); err != nil {
					return err
				}
				return effect(ctx, tx, m)
			})
			b, unknown := &lossy{Store: w.store, end: end}, make(chan *ledger.Tx, 1)
			stop := w.run(w.workerOn(b, mux, engine.Config{OnUnknown: func(tx *ledger.Tx) { unknown <- tx }}))
			made := w.due(meal, 1)[0]
			w.publish(made)
			pipelinetest.Await(t, "done", func() bool { return w.settled("meal", "done") == 1 })
			want(t, "effects", w.effects(made.ID), 1)
			want(t, "state", w.store.Row(made.ID).State, task.Done)
			want(t, "stop", stop(), nil)
			close(unknown)
			tx := <-unknown
			if tx == nil {
				t.Fatal("the daemon is not asked to look at what the transaction has made")
			}
			want(t, "tasks that the daemon looks at", len(tx.Touched(0)), 2)
		})
	}
}

// lossy is a store that ends the first transaction with done tasks behind the worker's back, so that the worker's own
// commit gets an error that says nothing.
type lossy struct {
	engine.Store
	end  func(*sqlx.Tx) error
	lost atomic.Bool
}

func (l *lossy) Write(ctx context.Context, q sqlx.ExtContext, changes []transition.Change) error {
	err := l.Store.Write(ctx, q, changes)
	if err != nil || !slices.ContainsFunc(changes, func(c transition.Change) bool { return c.After.State == task.Done }) || l.lost.Swap(true) {
		return err
	}
	return l.end(q.(*sqlx.Tx))
}

func (l *lossy) Ambiguous(err error) bool {
	return errors.Is(err, sql.ErrTxDone) || l.Store.Ambiguous(err)
}

func TestPartitionsMoveBetweenWorkersWithoutLossOrRepeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	var calls sync.Map
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		calls.Store(tk.ID, true)
		return effect(ctx, tx, tk)
	})
	const n = 300
	stopFirst := w.run(w.worker(mux, engine.Config{Batch: 10}))
	w.publish(w.due(meal, n)...)
	stopSecond := w.run(w.worker(mux, engine.Config{Batch: 10})) // shares the registry too
	w.publish(w.due(meal, n)...)
	want(t, "stop first", stopFirst(), nil)
	w.publish(w.due(meal, n)...)
	pipelinetest.Await(t, "all are done", func() bool {
		return w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 1") == 3*n
	})
	pipelinetest.Await(t, "all is committed", func() bool { return !w.explained(time.Now().Add(time.Hour)) })
	want(t, "stop second", stopSecond(), nil)
	want(t, "effects", w.store.Number("SELECT COUNT(*) FROM effects"), 3*n)
	want(t, "tasks with effects", w.store.Number("SELECT COUNT(DISTINCT task_id) FROM effects"), 3*n)
}
