package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/streamtest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/transition"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

const soon = 100 * time.Millisecond // the least that engine.Config.Late takes

// looks runs a worker that looks for what is late.
func (w *world) looks(mux *worker.Mux) (stop func() error) {
	w.t.Helper()
	return w.run(w.worker(mux, engine.Config{Late: soon}))
}

func (w *world) found(cause string) float64 {
	w.t.Helper()
	return w.metric("duetime_tasks_found_total", "queue", "default", "cause", cause)
}

// degraded returns how many workers of the queue the history calls degraded.
func (w *world) degraded() int {
	w.t.Helper()
	workers, err := w.store.Degraded(w.t.Context(), time.Now())
	pipelinetest.Must(w.t, err)
	return workers["default"]
}

// No hint comes. Tasks run all the same, the first ones a little late and the later ones in time; each once.
func TestLooksStandInForHints(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		mux := worker.NewMux()
		var lags sync.Map
		worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
			lags.Store(tk.ID, time.Since(tk.DueAt))
			return effect(ctx, tx, tk)
		})
		stop := w.looks(mux)
		w.due(meal, 20)
		pipelinetest.Await(t, "what was late when it was found", func() bool { return w.settled("meal", "done") == 20 })
		var later []task.Task
		for i := range 30 {
			later = append(later, w.dueIn(meal, 1, time.Second+time.Duration(i)*50*time.Millisecond)...)
		}
		pipelinetest.Await(t, "what was found ahead", func() bool { return w.settled("meal", "done") == 50 })
		want(t, "workers that the history calls degraded", w.degraded(), 1)
		want(t, "stop", stop(), nil)
		want(t, "effects", w.store.Number("SELECT COUNT(*) FROM effects"), 50)
		want(t, "versions of what was found ahead", w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE version = 2 AND attempt = 0") > 5, true)
		if w.found("ahead") <= 5 {
			t.Errorf("%v tasks were found ahead of their moment, want many of 30", w.found("ahead"))
		}
		early := 0
		for _, tk := range later {
			lag, _ := lags.Load(tk.ID)
			if lag.(time.Duration) < -10*time.Millisecond { // this machine's clock against the database's
				early++
			}
		}
		want(t, "early", early, 0)
	})
}

// Hints come in time: then a worker finds nothing, and looks end to stand in for hints.
func TestLooksGiveWayToHints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	stop := w.looks(mux)
	degraded := func() float64 {
		return w.metric("duetime_worker_degraded", "queue", "default")
	}
	w.due(meal, 1)
	pipelinetest.Await(t, "a find without a hint", func() bool { return degraded() == 1 })
	pipelinetest.Await(t, "health, while hints come", func() bool {
		w.publish(w.dueIn(meal, 1, 2*soon)...)
		time.Sleep(20 * time.Millisecond) // about 50 tasks a second
		return degraded() == 0
	})
	pipelinetest.Await(t, "health in the history, which follows the metric", func() bool { return w.degraded() == 0 })
	want(t, "stop", stop(), nil)
}

// Looks end to stand in for hints also where none is made: hints wait for a runner all the time, or the queue is paused.
func TestLooksGiveWayWithoutALook(t *testing.T) {
	t.Parallel()
	for name, hinder := range map[string]func(w *world){
		"hints wait": func(w *world) { w.publish(w.due(meal, 5)...) },
		"paused": func(w *world) {
			pipelinetest.Must(w.t, second(w.store.Pause(w.t.Context(), w.store.DB(), "default", time.Now(), time.Time{})))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			release := make(chan struct{})
			mux := worker.NewMux()
			worker.HandleOutside(mux, meal, func(context.Context, worker.Task[payload]) error {
				<-release
				return nil
			})
			stop := w.run(w.worker(mux, engine.Config{Late: soon, Concurrency: 1}))
			degraded := func() float64 {
				return w.metric("duetime_worker_degraded", "queue", "default")
			}
			w.due(meal, 1)
			pipelinetest.Await(t, "a find without a hint", func() bool { return degraded() == 1 })
			hinder(w)
			pipelinetest.Await(t, "health", func() bool { return degraded() == 0 })
			want(t, "tasks that have ended", w.settled("meal", "done"), 0)
			close(release)
			want(t, "stop", stop(), nil)
		})
	}
}

// The database's clock is set back by an hour while looks stand in for hints: that ends as soon as otherwise.
func TestLooksGiveWayAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	s := &stepping{Store: w.store}
	stop := w.run(w.workerOn(s, mux, engine.Config{Late: soon}))
	degraded := func() float64 {
		return w.metric("duetime_worker_degraded", "queue", "default")
	}
	w.due(meal, 1)
	pipelinetest.Await(t, "a find without a hint", func() bool { return degraded() == 1 })
	s.back.Store(int64(time.Hour))
	pipelinetest.Await(t, "health", func() bool { return degraded() == 0 })
	want(t, "stop", stop(), nil)
}

// A look begins at the floor of pending rows. What comes to stand below is found once the floor is there.
func TestLooksBeginAtTheFloor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	s := &sinking{Store: w.store}
	s.floor.Store(time.Now().Add(-time.Hour).UnixNano())
	below := w.due(meal, 1)[0]
	w.store.Exec("UPDATE duetime_tasks SET run_at = run_at - 7200000")
	w.schedule(task.NewKind[payload]("unknown").New("ann", payload{}, task.In(0)))
	w.store.Exec("UPDATE duetime_tasks SET run_at = run_at - 60000 WHERE kind = 'unknown'") // so that looks examine what is old
	stop := w.run(w.workerOn(s, mux, engine.Config{Late: soon}))
	for n := range 3 {
		w.due(meal, 1)
		pipelinetest.Await(t, "a task above the floor", func() bool { return w.settled("meal", "done") == float64(n+1) })
	}
	want(t, "version of the task below the floor", w.store.Row(below.ID).Version, 1)
	s.floor.Store(0)
	pipelinetest.Await(t, "the task below", func() bool { return w.settled("meal", "done") == 4 })
	want(t, "stop", stop(), nil)
}

// sinking is a store whose floor falls.
type sinking struct {
	engine.Store
	floor atomic.Int64
}

func (s *sinking) Floor(context.Context) (time.Time, error) { return time.Unix(0, s.floor.Load()), nil }

// stepping is a store whose clock is set back.
type stepping struct {
	engine.Store
	back atomic.Int64 // a time.Duration
}

func (s *stepping) Clock(ctx context.Context) (time.Time, error) {
	now, err := s.Store.Clock(ctx)
	return now.Add(-time.Duration(s.back.Load())), err
}

func TestLooksLeaveAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	worker.Handle(mux, elsewhere, effect)
	pipelinetest.Must(t, second(w.store.Pause(t.Context(), w.store.DB(), "elsewhere", time.Now(), time.Time{})))
	stop := w.looks(mux)
	paused := w.due(elsewhere, 3)
	unknown := w.schedule(task.NewKind[payload]("unknown").New("ann", payload{}, task.In(0)))[0]
	foreign := w.schedule(task.NewKind[payload]("meal", task.Queue("foreign")).New("ann", payload{}, task.In(0)))[0]
	w.due(meal, 3)
	pipelinetest.Await(t, "the queue's own", func() bool { return w.settled("meal", "done") == 3 })
	w.due(meal, 3)
	pipelinetest.Await(t, "the queue's own, again", func() bool { return w.settled("meal", "done") == 6 })
	for what, id := range map[string]task.ID{"a paused queue's": paused[0].ID, "of an unknown kind": unknown.ID, "another queue's": foreign.ID} {
		want(t, "version of a task "+what, w.store.Row(id).Version, 1)
	}
	_, err := w.store.Resume(t.Context(), w.store.DB(), "elsewhere")
	pipelinetest.Must(t, err)
	pipelinetest.Await(t, "the resumed queue's", func() bool { return w.settled("elsewhere", "done") == 3 })
	want(t, "stop", stop(), nil)
}

// slowToBegin leaves the row of a suspect free for a while between its charge and its run.
type slowToBegin struct{ *store.Store }

func (s slowToBegin) Begin(ctx context.Context) (*sqlx.Tx, error) {
	time.Sleep(rand.N(60 * time.Millisecond))
	return s.Store.Begin(ctx)
}

// Workers that start together find the same tasks. Each is charged by one of them: an innocent task must not lose two attempts,
// also if it waits behind a slow one after its charge.
func TestTasksThatSeveralFindAreChargedOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tasks int
		takes time.Duration
	}{"many": {200, 0}, "slow": {8, 1200 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			mux := worker.NewMux()
			worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
				time.Sleep(c.takes)
				return effect(ctx, tx, tk)
			})
			w.due(meal, c.tasks)
			for range 3 {
				cfg := engine.Config{Late: soon, Batch: 10, BatchTime: 50 * time.Millisecond, Metrics: prometheus.NewRegistry()}
				wk, err := engine.New(patient(cfg), mux, slowToBegin{w.store.Store}, nobodyComes{}, w.index, w.log)
				pipelinetest.Must(t, err)
				worldtest.Run(w.t, wk.Run)
			}
			pipelinetest.Await(t, "all tasks to be done", func() bool {
				return w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 1") == c.tasks
			})
			want(t, "tasks that were charged twice", w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE attempt > 1"), 0)
			want(t, "tasks that were charged", w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE attempt = 1") > c.tasks/2, true)
			want(t, "effects", w.store.Number("SELECT COUNT(*) FROM effects"), c.tasks)
		})
	}
}

// A suspect that another worker has just charged is about to run there. Its row stays free while another task runs here.
func TestLooksFreeWhatAnotherIsAboutToRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	theirs := w.due(meal, 1)[0]
	pipelinetest.Must(t, worldtest.Save(t.Context(), w.store.Store, w.store.DB(), transition.Charge(theirs, time.Now())))
	isFree := func() bool {
		tx, err := w.store.Begin(t.Context())
		pipelinetest.Must(t, err)
		defer func() { _ = tx.Rollback() }()
		rows, _, err := w.store.LockFree(t.Context(), tx, []task.ID{theirs.ID})
		pipelinetest.Must(t, err)
		return len(rows) == 1
	}
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		if tk.ID != theirs.ID {
			for !isFree() {
				if loop.Sleep(ctx, soon/10); ctx.Err() != nil {
					t.Error("the row that was charged elsewhere is locked")
					return ctx.Err()
				}
			}
		}
		return effect(ctx, tx, tk)
	})
	w.due(meal, 1)
	stop := w.looks(mux)
	pipelinetest.Await(t, "both to be done", func() bool { return w.settled("meal", "done") == 2 })
	want(t, "attempts of the one that nobody ran", w.store.Row(theirs.ID).Attempt, 2)
	want(t, "stop", stop(), nil)
}

var elsewhere = task.NewKind[payload]("elsewhere", task.Queue("elsewhere"))

func second[T any](_ T, err error) error { return err }

// A row that somebody has locked is dropped: other tasks run meanwhile, and it runs once it is free.
func TestLooksDropWhatIsLocked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	locked := w.due(meal, 1)[0]
	tx, err := w.store.Begin(t.Context())
	pipelinetest.Must(t, err)
	_, err = w.store.Lock(t.Context(), tx, []task.ID{locked.ID})
	pipelinetest.Must(t, err)
	stop := w.looks(mux)
	w.due(meal, 5)
	pipelinetest.Await(t, "the others", func() bool { return w.settled("meal", "done") == 5 })
	pipelinetest.Await(t, "an empty hold", func() bool { return w.metric("duetime_hints_held") == 0 })
	pipelinetest.Must(t, tx.Rollback())
	pipelinetest.Await(t, "the freed one", func() bool { return w.settled("meal", "done") == 6 })
	want(t, "stop", stop(), nil)
	want(t, "attempts of the freed one", w.store.Row(locked.ID).Attempt, 1) // charged before it ran
}

// A handler takes longer than Late. Another worker finds its task again and again, locked: that is neither news nor a reason to
// look more often.
func TestLooksDoNotHurryForSlowHandlers(t *testing.T) {
	t.Parallel()
	for name, suspects := range map[string]bool{"of tasks that were charged before": true, "of others": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doNotHurry(t, suspects)
		})
	}
}

func doNotHurry(t *testing.T, suspects bool) {
	t.Helper()
	w := newWorld(t)
	running, release := make(chan struct{}, 10), make(chan struct{})
	slow := worker.NewMux()
	worker.HandleOutside(slow, meal, func(context.Context, worker.Task[payload]) error {
		running <- struct{}{}
		<-release
		return nil
	})
	wk, err := engine.New(patient(engine.Config{Late: -1}), slow, w.store, w.log, w.index, w.log)
	pipelinetest.Must(t, err)
	var rows []task.Task
	if suspects { // they were due before the worker got their partitions
		rows = w.due(meal, 3)
	}
	stopSlow := w.run(wk)
	pipelinetest.Must(t, wk.Joined(t.Context()))
	if !suspects {
		rows = w.due(meal, 3)
	}
	w.publish(rows...)
	for range 3 {
		<-running
	}
	other := worker.NewMux()
	worker.HandleOutside(other, meal, func(context.Context, worker.Task[payload]) error { return nil })
	stop := w.run(w.worker(other, engine.Config{Late: soon}))
	pipelinetest.Await(t, "finds", func() bool { return w.found("late")+w.found("anybodys") >= 3 })
	// A look before the first assignment takes what it finds for news: nobody knows yet whose hints these are.
	pipelinetest.Await(t, "trust in hints", func() bool {
		return w.metric("duetime_worker_degraded", "queue", "default") == 0
	})
	before := w.histogram("duetime_look_duration_seconds").GetSampleCount()
	time.Sleep(2 * time.Second) // of looks
	if n := w.histogram("duetime_look_duration_seconds").GetSampleCount() - before; n > 20 {
		t.Errorf("%d looks in two seconds, want about two", n)
	}
	want(t, "settled by the other worker", w.settled("meal", "done"), 0)
	close(release)
	want(t, "stop", stop(), nil)
	want(t, "stop of the slow one", stopSlow(), nil)
}

// Tasks that looks found and charged are refunded at a stop, when their handlers did not run to an end.
func TestStopRefundsWhatLooksCharged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	var called atomic.Int64
	worker.Handle(mux, meal, func(ctx context.Context, _ *worker.Tx, _ worker.Task[payload]) error {
		called.Add(1)
		<-ctx.Done()
		return ctx.Err()
	})
	rows := w.due(meal, 5)
	stop := w.run(w.worker(mux, engine.Config{Late: soon, Drain: 50 * time.Millisecond, BatchTime: time.Millisecond}))
	pipelinetest.Await(t, "a call", func() bool { return called.Load() > 0 })
	want(t, "stop", stop(), nil)
	for i, row := range rows {
		want(t, fmt.Sprintf("attempts of task %d", i), w.store.Row(row.ID).Attempt, 0)
	}
}

// Three workers share two partitions: the one without a partition has work too.
func TestWorkersBeyondThePartitionsHaveWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.log = streamtest.New(stream.Config{Namespace: "test", Partitions: 2})
	const workers = 3
	var ran [workers]atomic.Int64
	var stops []func() error
	for i := range workers {
		mux := worker.NewMux()
		worker.HandleOutside(mux, meal, func(context.Context, worker.Task[payload]) error {
			ran[i].Add(1)
			time.Sleep(50 * time.Millisecond) // so that tasks wait for a runner
			return nil
		})
		wk, err := engine.New(patient(engine.Config{Late: soon, Concurrency: 1}), mux, w.store, w.log, w.index, w.log)
		pipelinetest.Must(t, err)
		stops = append(stops, w.run(wk))
	}
	pipelinetest.Await(t, "work for each", func() bool {
		w.publish(w.due(meal, 50)...)
		time.Sleep(time.Second) // more tasks than two workers run in this time
		for i := range ran {
			if ran[i].Load() == 0 {
				return false
			}
		}
		return true
	})
	for _, stop := range stops {
		want(t, "stop", stop(), nil)
	}
}

// nobodyComes is a stream without Kafka.
type nobodyComes struct{}

func (nobodyComes) Consume(ctx context.Context, _ string, _ func(context.Context, protocol.Session) error) error {
	<-ctx.Done()
	return errors.New("no broker")
}

// A worker whose groups can't be joined works by looks alone.
func TestLooksNeedNoStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	wk, err := engine.New(patient(engine.Config{Late: soon, Metrics: w.reg}), mux, w.store, nobodyComes{}, w.index, w.log)
	pipelinetest.Must(t, err)
	stop := worldtest.Run(w.t, wk.Run)
	w.due(meal, 10)
	pipelinetest.Await(t, "all", func() bool { return w.settled("meal", "done") == 10 })
	want(t, "stop", stop(), nil)
	want(t, "effects", w.store.Number("SELECT COUNT(*) FROM effects"), 10)
}
