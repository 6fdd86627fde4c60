package worker_test

import (
	"context"
	"errors"
	"testing"

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
