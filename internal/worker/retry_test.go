package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// feeding is an index that sends the hint of each pending task at once; the worker holds it until its moment.
type feeding struct {
	w *world
}

func (f *feeding) Offer(tasks []task.Task) {
	pending := slices.DeleteFunc(slices.Clone(tasks), func(t task.Task) bool { return t.State != task.Pending })
	if err := errors.Join(f.w.log.Publish(context.Background(), worldtest.Entries(pending...), 1)...); err != nil {
		f.w.t.Errorf("publish: %v", err)
	}
}

// Two thousand tasks fail again and again. Mails of the same queue that never failed go out in time.
func TestWhoIsWellDoesNotWaitForWhoFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const failing, mails = 2000, 50
	failed := task.NewKind[payload]("failing", task.MaxAttempts(1000), task.Retry(task.Backoff{Min: 100 * time.Millisecond, Max: 500 * time.Millisecond}))
	mail := task.NewKind[payload]("mail", task.MaxAttempts(3))
	var retries atomic.Int64
	var sent sync.Map // by word, when
	mux := worker.NewMux()
	worker.HandleOutside(mux, failed, func(_ context.Context, tk worker.Task[payload]) error {
		if tk.Attempt > 0 {
			retries.Add(1)
		}
		return errSick
	})
	worker.HandleOutside(mux, mail, func(_ context.Context, tk worker.Task[payload]) error {
		sent.Store(tk.Payload.Word, time.Since(tk.DueAt))
		return nil
	})
	wk, err := engine.New(engine.Config{Patience: limit, Metrics: w.reg, BatchTime: 5 * time.Second}, mux, w.store, w.log, &feeding{w}, w.log)
	pipelinetest.Must(t, err)
	stop := w.run(wk)
	var specs []task.Spec
	for i := range failing {
		specs = append(specs, failed.New(fmt.Sprintf("failing%d", i), payload{}, task.In(time.Second)))
	}
	for i := range failing / 1000 {
		w.publish(w.schedule(specs[i*1000 : (i+1)*1000]...)...)
	}
	pipelinetest.Await(t, "all have failed once", func() bool {
		return w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE kind = 'failing' AND attempt = 0") == 0
	})
	specs = nil
	for i := range mails {
		specs = append(specs, mail.New(fmt.Sprintf("owner%d", i), payload{Word: fmt.Sprint(i)}, task.In(time.Second+time.Duration(i)*20*time.Millisecond)))
	}
	before := retries.Load()
	w.publish(w.schedule(specs...)...)
	pipelinetest.Await(t, "the mails are sent", func() bool { return w.settled("mail", "done") == mails })
	want(t, "tasks failed meanwhile", retries.Load() > before, true)
	want(t, "stop", stop(), nil)
	var worst time.Duration
	sent.Range(func(_, lag any) bool { worst = max(worst, lag.(time.Duration)); return true })
	overdue := w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE kind = 'failing' AND state = 0 AND run_at < ?", time.Now().UnixMilli())
	t.Logf("the latest mail went out %v after its time, with %d retries meanwhile and %d waiting", worst, retries.Load()-before, overdue)
	if worst > time.Second {
		t.Errorf("a mail went out %v after its time", worst)
	}
}
