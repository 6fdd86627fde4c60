package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/embedded"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// bells schedules n tasks of n owners within a second from now.
func (w *world) bells(p *embedded.Pipeline, word string, n int) []task.Task {
	w.t.Helper()
	specs := make([]task.Spec, n)
	for i := range specs {
		specs[i] = ring.New(fmt.Sprint(word, i), note{word}, task.In(time.Duration(i)*time.Second/time.Duration(n)))
	}
	var made []task.Task
	pipelinetest.Must(w.t, p.InTx(w.t.Context(), func(tx *schedule.Tx) (err error) {
		made, err = tx.ScheduleMany(w.t.Context(), specs)
		return err
	}))
	return made
}

func (w *world) awaitAll(p *embedded.Pipeline, n int) {
	w.t.Helper()
	pipelinetest.Await(w.t, fmt.Sprint(n, " effects"), func() bool { return w.number(p, "SELECT COUNT(*) FROM effects") >= n })
}

// The next process runs the tasks of a process that crashed.
func TestRestartKeepsTasks(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		first := w.pipeline(embedded.Config{})
		overdue := w.bells(first, "overdue", 20)
		ahead := w.schedule(first, ring.New("ada", note{"ahead"}, task.In(1500*time.Millisecond)))
		gone := w.schedule(first, ring.New("ada", note{"gone"}, task.In(time.Second)))
		_, err := first.Cancel(t.Context(), gone.ID)
		pipelinetest.Must(t, err)

		second := w.pipeline(embedded.Config{})
		w.work(second, ringing())
		w.awaitAll(second, 21)
		w.once(second, append(overdue, ahead)...)
		if got := w.row(second, gone.ID).State; got != task.Cancelled {
			t.Errorf("got the cancelled task %v", got)
		}
	})
}

// A stop lets running handlers finish, and starts no other.
func TestStopDrains(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		p := w.pipeline(embedded.Config{})
		mux := worker.NewMux()
		running, finish := make(chan struct{}), make(chan struct{})
		var begin sync.Once
		worker.Handle(mux, ring, func(ctx context.Context, tx *worker.Tx, b worker.Task[note]) error {
			begin.Do(func() { close(running) })
			select {
			case <-finish:
				return effect(ctx, tx, b)
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		stop := w.work(p, mux)
		made := w.schedule(p, ring.New("ada", note{"running"}, task.In(0)))
		<-running
		var group errgroup.Group
		group.Go(stop)
		close(finish)
		pipelinetest.Must(t, group.Wait())
		w.once(p, made)
		if got := w.row(p, made.ID).State; got != task.Done {
			t.Errorf("got the running task %v, want done", got)
		}
		late := w.schedule(p, ring.New("ada", note{"late"}, task.In(0)))
		if got := w.row(p, late.ID).State; got != task.Pending {
			t.Errorf("got a task %v after the stop, want pending", got)
		}
	})
}

// Of two pipelines on one schema neither loses or repeats a task.
func TestTwoPipelines(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		a, b := w.pipeline(embedded.Config{}), w.pipeline(embedded.Config{})
		stopA := w.work(a, ringing())
		w.work(b, ringing())
		tasks := append(w.bells(a, "a", 50), w.bells(b, "b", 50)...)
		// Each task is changed through the pipeline that did not make it.
		moved := w.schedule(a, ring.New("eve", note{"moved"}, task.In(time.Hour)))
		_, err := b.Shift(ctx, moved.ID, -2*time.Hour)
		pipelinetest.Must(t, err)
		gone := w.schedule(a, ring.New("eve", note{"gone"}, task.In(500*time.Millisecond)))
		cancelled := true
		if _, err := b.Cancel(ctx, gone.ID); errors.Is(err, task.ErrAlreadyDone) {
			cancelled = false
		} else {
			pipelinetest.Must(t, err)
		}
		left := w.schedule(a, ring.New("eve", note{"left"}, task.In(2*time.Second)))
		w.await(b, moved.ID, task.Done)
		pipelinetest.Must(t, stopA()) // b has a's tasks too
		w.await(b, left.ID, task.Done)
		for _, made := range tasks {
			w.await(b, made.ID, task.Done)
		}
		w.once(b, append(tasks, moved, left)...)
		if n := w.number(b, "SELECT COUNT(*) FROM effects WHERE word = 'gone'"); cancelled == (n > 0) {
			t.Errorf("got %d effects of a task whose cancel answered %v", n, cancelled)
		}
	})
}
