package worker_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// BenchmarkSettle is one batch of 100 through the worker's transaction: by single handlers that write a row each, by one
// batch handler that writes all in one statement, and by the latter for tasks of recurrences, which make their next ticks, and for tasks in order.
func BenchmarkSettle(b *testing.B) {
	single, batch := worker.NewMux(), worker.NewMux()
	worker.Handle(single, meal, effect)
	feed := func(ctx context.Context, tx *worker.Tx, ts []worker.Task[payload]) error {
		args := make([]any, 0, 2*len(ts))
		for _, t := range ts {
			args = append(args, t.ID.String(), t.Payload.Word)
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO effects (task_id, word) VALUES "+strings.Repeat("(?,?),", len(ts)-1)+"(?,?)", args...)
		return err
	}
	worker.HandleBatch(batch, meal, feed)
	worker.HandleBatch(batch, march, feed)
	for name, c := range map[string]struct {
		mux *worker.Mux
		due func(w *world) func() []task.Task // returns what makes 100 tasks
	}{
		"single": {single, newTasks}, "batch": {batch, newTasks}, "ticks": {batch, nextTicks}, "in order": {batch, newMarches},
	} {
		b.Run(name, func(b *testing.B) {
			w := newWorld(b)
			wk := w.worker(c.mux, engine.Config{})
			due := c.due(w)
			b.ResetTimer()
			for b.Loop() {
				b.StopTimer()
				tasks := due()
				b.StartTimer()
				for _, o := range w.pass(wk, tasks...) {
					want(b, "result", o.Result, "done")
				}
			}
			b.ReportMetric(float64(100*b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

// BenchmarkGroup is 5,000 tasks that are due at one moment, settled by four workers side by side: plain ones, and members of a group.
func BenchmarkGroup(b *testing.B) {
	const n, workers = 5000, 4
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	for name, due := range map[string]func(w *world, run int) []task.Task{
		"plain": func(w *world, _ int) []task.Task {
			var all []task.Task
			for range n / task.MaxPerCall {
				all = append(all, w.due(meal, task.MaxPerCall)...)
			}
			return all
		},
		"members": func(w *world, run int) []task.Task {
			all, _ := w.group(fmt.Sprint("g", run), n)
			return all
		},
	} {
		b.Run(name, func(b *testing.B) {
			w := newWorld(b)
			runs := 0
			for b.Loop() {
				b.StopTimer()
				tasks := due(w, runs)
				runs++
				var busy sync.WaitGroup
				b.StartTimer()
				for part := range slices.Chunk(tasks, n/workers) {
					wk, err := engine.New(patient(engine.Config{Late: -1}), mux, w.store, w.log, w.index, w.log)
					pipelinetest.Must(b, err)
					busy.Go(func() { w.pass(wk, part...) })
				}
				busy.Wait()
			}
			want(b, "effects", w.store.Number("SELECT COUNT(*) FROM effects"), n*runs)
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

func newTasks(w *world) func() []task.Task {
	return func() []task.Task { return w.due(meal, 100) }
}

func newMarches(w *world) func() []task.Task {
	return func() []task.Task { return w.due(march, 100) }
}

// nextTicks moves the pending tasks of 100 recurrences to now.
func nextTicks(w *world) func() []task.Task {
	w.recur(meal, recur.Policy{}, 100)
	return func() []task.Task {
		now, err := w.store.Now(w.t.Context(), nil)
		pipelinetest.Must(w.t, err)
		w.store.Exec("UPDATE duetime_tasks SET due_at = ?, run_at = ? WHERE state = 0", now.UnixMilli(), now.UnixMilli())
		ticks, err := w.store.Pending(w.t.Context(), time.Time{}, now.Add(time.Second), protocol.Cursor{}, 1000)
		pipelinetest.Must(w.t, err)
		want(w.t, "pending ticks", len(ticks), 100)
		return ticks
	}
}
