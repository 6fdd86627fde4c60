package worker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// A task's key is scheduled while its handler is at work: the caller waits, the handler's work stands, and the key is free then.
func TestKeyOfARunningTask(t *testing.T) {
	t.Parallel()
	for mode, key := range map[string]func() task.Option{
		"keep": func() task.Option { return task.Key("k") }, "move": func() task.Option { return task.KeyMove("k") },
		"replace": func() task.Option { return task.KeyReplace("k") }, "once": func() task.Option { return task.Once("k") },
	} {
		for form, handle := range map[string]func(*worker.Mux, func(context.Context) error){
			"within": func(mux *worker.Mux, run func(context.Context) error) {
				worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
					return errors.Join(run(ctx), effect(ctx, tx, tk))
				})
			},
			"outside": func(mux *worker.Mux, run func(context.Context) error) {
				worker.HandleOutside(mux, meal, func(ctx context.Context, _ worker.Task[payload]) error { return run(ctx) })
			},
		} {
			t.Run(form+", "+mode, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				made := w.schedule(meal.New("o", payload{Word: "old"}, task.In(0), key()))[0]
				spec := meal.New("o", payload{Word: "new"}, task.In(time.Hour), key())
				runs, stands, scheduled := 0, task.Task{}, make(chan error, 1)
				mux := worker.NewMux()
				handle(mux, func(context.Context) error {
					runs++
					go func() {
						scheduled <- w.tryTx(func(ctx context.Context, tx *schedule.Tx) (err error) {
							stands, err = tx.Schedule(ctx, spec)
							return err
						})
					}()
					pipelinetest.Await(t, "the caller waits for the row", func() bool { return pipelinetest.LockWaits(t, w.store.DB()) > 0 })
					return nil
				})
				got := w.pass(w.worker(mux, engine.Config{}), made)
				pipelinetest.Must(t, <-scheduled)
				want(t, fmt.Sprintf("result (%v)", got[made.ID].Err), got[made.ID].Result, "done")
				want(t, "runs", runs, 1)
				want(t, "batches tried again", w.metric("duetime_batches_retried_total"), 0)
				outcome := task.Made
				if mode == "once" {
					outcome = task.Kept
				}
				want(t, "outcome", spec.Outcome(stands), outcome)
			})
		}
	}
}

// Debounces meet their own runs all the time: no batch is rolled back, and no outside handler acts twice for one run.
func TestDebouncesAgainstTheirRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mu sync.Mutex
	acts := map[string]int{}
	mux := worker.NewMux()
	outside := task.NewKind[payload]("outside", task.MaxAttempts(1000), quickly)
	worker.HandleOutside(mux, outside, func(_ context.Context, tk worker.Task[payload]) error {
		mu.Lock()
		defer mu.Unlock()
		acts[tk.Payload.Word]++
		return nil
	})
	worker.Handle(mux, meal, effect)
	wk := w.worker(mux, engine.Config{})
	stop := w.run(wk)
	var callers sync.WaitGroup
	for caller := range 4 {
		callers.Go(func() {
			for i := range 50 {
				for _, kind := range []task.Kind[payload]{outside, meal} {
					spec := kind.New(fmt.Sprint("o", i%3), payload{Word: fmt.Sprint(caller, " ", i)}, task.In(0), task.KeyReplace("k"))
					var stands task.Task
					pipelinetest.Await(t, "scheduled", func() bool {
						return w.tryTx(func(ctx context.Context, tx *schedule.Tx) (err error) {
							stands, err = tx.Schedule(ctx, spec)
							return err
						}) == nil
					})
					w.publish(stands)
				}
			}
		})
	}
	callers.Wait()
	pipelinetest.Await(t, "all ran", func() bool { return w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 0") == 0 })
	pipelinetest.Must(t, stop())
	want(t, "batches tried again", w.metric("duetime_batches_retried_total"), 0)
	mu.Lock()
	defer mu.Unlock()
	for word, n := range acts {
		want(t, "acts for "+word, n, 1)
	}
}

// An owner's tasks are cancelled while a handler of the owner schedules a follow-up: the follow-up is cancelled too.
func TestCancelOwnerTakesFollowUps(t *testing.T) {
	t.Parallel()
	for name, shift := range map[string]bool{"cancel": false, "shift": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			changed := make(chan int, 1)
			mux := worker.NewMux()
			worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
				if _, err := tx.Schedule(ctx, meal.New(tk.Owner, payload{}, task.In(time.Hour))); err != nil {
					return err
				}
				go func() {
					var rows []task.Task
					if err := w.tryTx(func(ctx context.Context, tx *schedule.Tx) (err error) {
						if shift {
							rows, err = tx.ShiftOwner(ctx, tk.Owner, "", time.Hour)
						} else {
							rows, err = tx.CancelOwner(ctx, tk.Owner, "")
						}
						return err
					}); err != nil {
						t.Error(err)
					}
					changed <- len(rows)
				}()
				pipelinetest.Await(t, "the change waits for the row", func() bool { return pipelinetest.LockWaits(t, w.store.DB()) > 0 })
				return nil
			})
			w.pass(w.worker(mux, engine.Config{}), w.due(meal, 1)...)
			want(t, "tasks changed", <-changed, 1)
		})
	}
}
