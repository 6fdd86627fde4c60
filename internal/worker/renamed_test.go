package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/encrypt"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// The handler of a renamed kind runs tasks of both names, each with the name that it was scheduled with, and reads what was encrypted
// under the old one.
func TestRenamedKindRunsBothNames(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		secret := encrypt.Payloads(func(string) (encrypt.Key, error) { return encrypt.Key{ID: "k1", Secret: make([]byte, 32)}, nil })
		before := task.NewKind[payload]("meal.done", secret)
		after := task.NewKind[payload]("feed.done", secret, task.Was("meal.over", "meal.done"))
		mux := worker.NewMux()
		ran := map[string]string{}
		worker.HandleBatch(mux, after, func(_ context.Context, _ *worker.Tx, ts []worker.Task[payload]) error {
			for _, tk := range ts {
				ran[tk.Kind] = tk.Payload.Word
			}
			return nil
		})
		wk := w.worker(mux, engine.Config{})
		made := w.schedule(before.New("o", payload{Word: "old"}, task.In(0)), after.New("o", payload{Word: "new"}, task.In(0)))
		got := w.passAll(wk, made...)
		for _, row := range made {
			want(t, "result of "+row.Kind, got[row.ID].Result, "done")
		}
		want(t, "kinds", len(ran), 2)
		want(t, "payload of the old name", ran["meal.done"], "old")
		want(t, "payload of the new name", ran["feed.done"], "new")
	})
}

// The task that a handler runs has its key under the kind's old name: a follow-up with that key is refused, or replaces it.
func TestOwnKeyUnderTheOldName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before, after := task.NewKind[payload]("meal.done"), task.NewKind[payload]("feed.done", task.Was("meal.done"))
	mux := worker.NewMux()
	var kept, replaced error
	worker.Handle(mux, after, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		_, kept = tx.Schedule(ctx, after.New(tk.Owner, payload{}, task.In(time.Hour), task.Key("k")))
		_, replaced = tx.Schedule(ctx, after.New(tk.Owner, payload{Word: "next"}, task.In(time.Hour), task.KeyReplace("k")))
		return nil
	})
	made := w.schedule(before.New("o", payload{}, task.In(0), task.Key("k")))[0]
	got := w.pass(w.worker(mux, engine.Config{}), made)
	want(t, "result", got[made.ID].Result, "done")
	want(t, "a follow-up with the key is refused", errors.Is(kept, worker.ErrOwnKey), true)
	pipelinetest.Must(t, replaced)
	row := w.store.Row(made.ID)
	want(t, "state", row.State, task.Pending)
	want(t, "payload", string(row.Payload), `{"word":"next"}`)
	want(t, "tasks", w.store.Number("SELECT COUNT(*) FROM duetime_tasks"), 1)
}

// During a rollout workers of the old name and of both read one queue: each task runs once.
func TestRenamedKindBesideOldWorkers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before, after := task.NewKind[payload]("meal.done"), task.NewKind[payload]("feed.done", task.Was("meal.done"))
	for _, kind := range []task.Kind[payload]{before, after} {
		mux := worker.NewMux()
		worker.Handle(mux, kind, effect)
		w.run(w.worker(mux, engine.Config{Late: 100 * time.Millisecond})) // looks find what was put off
	}
	const each = 30
	for _, kind := range []task.Kind[payload]{before, after} {
		w.publish(w.due(kind, each)...)
	}
	pipelinetest.Await(t, "all ran", func() bool {
		return w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 1") == 2*each
	})
	want(t, "effects", w.store.Number("SELECT COUNT(*) FROM effects"), 2*each)
	want(t, "tasks with effects", w.store.Number("SELECT COUNT(DISTINCT task_id) FROM effects"), 2*each)
}
