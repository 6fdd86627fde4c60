package worker_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	limits "github.com/duetime/duetime/internal/limit"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// calls are when a handler was called, and how many calls ran at once at most.
type calls struct {
	mu            sync.Mutex
	at            []time.Time
	running, most int
	workers       map[string]int
}

// during runs fn as one call of a worker.
func (c *calls) during(name string, fn func()) {
	c.mu.Lock()
	if c.workers == nil {
		c.workers = map[string]int{}
	}
	c.at = append(c.at, time.Now())
	c.workers[name]++
	c.running++
	c.most = max(c.most, c.running)
	c.mu.Unlock()
	fn()
	c.mu.Lock()
	c.running--
	c.mu.Unlock()
}

func (c *calls) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.at)
}

// team runs n workers, each of which calls handle with its name.
func (w *world) team(n int, cfg engine.Config, handle func(ctx context.Context, name string, tx *worker.Tx, t worker.Task[payload]) error) (
	stops []func() error,
) {
	w.t.Helper()
	for i := range n {
		mux, name := worker.NewMux(), fmt.Sprint("worker-", i)
		worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, t worker.Task[payload]) error {
			return handle(ctx, name, tx, t)
		})
		stops = append(stops, w.run(w.worker(mux, cfg)))
	}
	return stops
}

func TestRateOverAllWorkers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const rate, n = 100, 400
	var c calls
	w.publish(w.due(meal, n)...)
	cfg := engine.Config{Limits: map[string]task.Limit{"default": {Rate: task.Rate{Calls: rate, Per: time.Second}}}}
	stops := w.team(3, cfg, func(ctx context.Context, name string, tx *worker.Tx, t worker.Task[payload]) error {
		c.during(name, func() {})
		return effect(ctx, tx, t)
	})
	pipelinetest.Await(t, "a third has run", func() bool { return c.count() >= n/3 })
	want(t, "stop of a worker", stops[0](), nil)
	pipelinetest.Await(t, "all are done", func() bool { return w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 1") == n })
	// In no second more than the rate, what is made good after a stall, and the stock of each worker.
	for i, first := range c.at {
		if more := i + rate + rate/4 + rate/10 + 3*rate/4; more < len(c.at) && c.at[more].Sub(first) < time.Second {
			t.Fatalf("%d calls in %v", more-i, c.at[more].Sub(first))
		}
	}
	if span := c.at[len(c.at)-1].Sub(c.at[0]); span < 3*time.Second {
		t.Errorf("%d calls took %v, want 4 s", n, span)
	}
	want(t, "effects", w.store.Number("SELECT COUNT(*) FROM effects"), n)
	if w.histogram("duetime_limit_wait_seconds").GetSampleCount() == 0 {
		t.Error("no wait for the limit was observed")
	}
}

func TestConcurrencyOverAllWorkers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 240
	var c calls
	w.publish(w.due(meal, n)...)
	cfg := engine.Config{Batch: 2, Limits: map[string]task.Limit{"default": {Concurrency: 2}}}
	w.team(3, cfg, func(ctx context.Context, name string, tx *worker.Tx, t worker.Task[payload]) (err error) {
		c.during(name, func() {
			time.Sleep(30 * time.Millisecond)
			err = effect(ctx, tx, t)
		})
		return err
	})
	pipelinetest.Await(t, "all are done", func() bool { return w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 1") == n })
	if c.most > 2 {
		t.Errorf("%d handlers ran at once, 2 may", c.most)
	}
	want(t, "effects", w.store.Number("SELECT COUNT(*) FROM effects"), n)
	want(t, "workers that ran tasks", len(c.workers), 3)
}

// An operator's rate comes before the configured one, and an operator can return to this.
func TestOperatorsRate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 60
	var c calls
	tasks := w.due(meal, n)
	w.publish(tasks...)
	cfg := engine.Config{Limits: map[string]task.Limit{"default": {Rate: task.Rate{Calls: 1, Per: time.Hour}}}}
	w.team(2, cfg, func(ctx context.Context, name string, tx *worker.Tx, t worker.Task[payload]) error {
		c.during(name, func() {})
		return effect(ctx, tx, t)
	})
	pipelinetest.Await(t, "one has run", func() bool { return c.count() == 1 })
	limited := func() bool {
		st, err := w.store.Limit(t.Context(), "default")
		pipelinetest.Must(t, err)
		return st.Limited(time.Now())
	}
	pipelinetest.Await(t, "the queue to be limited", limited)
	// The two workers share the metric here, and one of them may have no hints yet.
	pipelinetest.Await(t, "the metric to say that tasks wait", func() bool { return w.metric("duetime_queue_limited") == 1 })
	want(t, "calls at one an hour", c.count(), 1)
	oldest, _, err := w.store.Oldest(t.Context())
	pipelinetest.Must(t, err)
	want(t, "queues with a task that nobody holds back", len(oldest), 0)

	w.store.Exec(`INSERT INTO duetime_limits (queue, holders) VALUES ('other', '[{"na')`) // another queue's row is damaged
	none := task.Rate{}
	pipelinetest.Must(t, w.store.SetRate(t.Context(), w.store.DB(), "default", &none))
	pipelinetest.Await(t, "all are done", func() bool { return w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 1") == n })
	want(t, "effects", w.store.Number("SELECT COUNT(*) FROM effects"), n)
	pipelinetest.Await(t, "the metric to say that none wait", func() bool { return w.metric("duetime_queue_limited") == 0 })
}

// counted counts how often workers read and write what they share of a limit.
type counted struct {
	*store.Store

	reads, writes atomic.Int64
}

func (c *counted) Limit(ctx context.Context, queue string) (limits.State, error) {
	c.reads.Add(1)
	return c.Store.Limit(ctx, queue)
}

func (c *counted) SaveLimit(ctx context.Context, st limits.State) (bool, error) {
	c.writes.Add(1)
	return c.Store.SaveLimit(ctx, st)
}

// Tasks that wait for a low rate don't make their worker ask all the time.
func TestWaitForALowRateAsksSeldom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	called := make(chan struct{}, 2)
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(context.Context, *worker.Tx, worker.Task[payload]) error {
		called <- struct{}{}
		return nil
	})
	w.publish(w.due(meal, 2)...)
	s := &counted{Store: w.store.Store}
	w.run(w.workerOn(s, mux, engine.Config{Limits: map[string]task.Limit{"default": {Rate: task.Rate{Calls: 10, Per: time.Hour}}}}))
	<-called
	reads, writes := s.reads.Load(), s.writes.Load()
	time.Sleep(2 * time.Second) // what is not asked for can't be awaited
	if n := s.writes.Load() - writes; n > 5 {
		t.Errorf("%d writes of the limit in 2 s", n)
	}
	if n := s.reads.Load() - reads; n > 10 {
		t.Errorf("%d reads of the limit in 2 s", n)
	}
}

// A crowd of hints whose tasks were cancelled does not use up the slots of the tasks behind it, of which one slot still runs one.
func TestCancelledTasksUseNoSlots(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var c calls
	crowd := append(w.due(meal, task.MaxPerCall), w.due(meal, task.MaxPerCall)...)
	for page := range slices.Chunk(crowd, task.MaxPerCall) {
		w.inTx(func(ctx context.Context, tx *schedule.Tx) error {
			ids := make([]task.ID, len(page))
			for i, t := range page {
				ids[i] = t.ID
			}
			_, err := tx.CancelMany(ctx, ids)
			return err
		})
	}
	behind := w.dueIn(meal, 2, time.Second)
	w.publish(append(crowd, behind...)...)
	cfg := engine.Config{Limits: map[string]task.Limit{"default": {Rate: task.Rate{Calls: 10, Per: time.Minute}}}}
	w.team(1, cfg, func(_ context.Context, name string, _ *worker.Tx, _ worker.Task[payload]) error {
		c.during(name, func() {})
		return nil
	})
	pipelinetest.Await(t, "the first task behind the crowd", func() bool { return c.count() > 0 })
	if late := c.at[0].Sub(behind[0].DueAt); late > 4*time.Second {
		t.Errorf("the task behind the crowd was called %v late", late)
	}
	time.Sleep(500 * time.Millisecond)
	want(t, "calls, of one slot in six seconds", c.count(), 1)
}

func TestLimitsAreChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	_, err := engine.New(engine.Config{Limits: map[string]task.Limit{"default": {Concurrency: -1}}}, mux, w.store, w.log, w.index, w.log)
	if err == nil || !strings.Contains(err.Error(), "worker: Limits: queue default: concurrency must be 0 (no bound) to 10000") {
		t.Errorf("got %v", err)
	}
}
