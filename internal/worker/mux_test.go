package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/kinds"
	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/streamtest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// What could only fail when the first task is due is refused when it is registered, by its name.
func TestRegistrationIsRefused(t *testing.T) {
	t.Parallel()
	var nobody task.Kind[payload]
	single := func(context.Context, *worker.Tx, worker.Task[payload]) error { return nil }
	batch := func(context.Context, *worker.Tx, []worker.Task[payload]) error { return nil }
	outside := func(context.Context, worker.Task[payload]) error { return nil }
	for name, test := range map[string]struct {
		register func(m *worker.Mux)
		want     string
	}{
		"zero kind":            {func(m *worker.Mux) { worker.Handle(m, nobody, single) }, "task.NewKind"},
		"zero kind of a batch": {func(m *worker.Mux) { worker.HandleBatch(m, nobody, batch) }, "task.NewKind"},
		"zero kind outside":    {func(m *worker.Mux) { worker.HandleOutside(m, nobody, outside) }, "task.NewKind"},
		"nil handler":          {func(m *worker.Mux) { worker.Handle(m, meal, nil) }, `"meal" has nil`},
		"nil handler, a batch": {func(m *worker.Mux) { worker.HandleBatch(m, meal, nil) }, `"meal" has nil`},
		"nil handler, outside": {func(m *worker.Mux) { worker.HandleOutside(m, meal, nil) }, `"meal" has nil`},
		"two handlers":         {func(m *worker.Mux) { worker.Handle(m, meal, single); worker.HandleOutside(m, meal, outside) }, `"meal" has two`},
		"a live kind's name": {func(m *worker.Mux) {
			worker.Handle(m, meal, single)
			worker.Handle(m, task.NewKind[payload]("feed", task.Was("dinner", "meal")), single)
		}, `"meal" is a name of two kinds (task.Was), of "meal" and of "feed"`},
		"an old name of another kind": {func(m *worker.Mux) {
			worker.Handle(m, task.NewKind[payload]("feed", task.Was("meal")), single)
			worker.Handle(m, meal, single)
		}, `"meal" is a name of two kinds (task.Was), of "feed" and of "meal"`},
		"two kinds of one name": {func(m *worker.Mux) {
			worker.Handle(m, meal, single)
			worker.Handle(m, task.NewKind[payload]("meal", task.Queue("other")), single)
		}, `"meal" has two handlers: it is declared for queue "default" and for queue "other"`},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, test.want) {
					t.Errorf("%s: got %s, want a panic with %s", name, got, test.want)
				}
			}()
			test.register(&worker.Mux{})
		}()
	}
}

// A worker that is kept to some queues takes no other queue's tasks. Another worker gets them.
func TestWorkerReadsItsQueuesAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.log = streamtest.New(stream.Config{Namespace: "test", Partitions: 3, Queues: []string{"default", "mails"}})
	mail := task.NewKind[payload]("mail.send", task.Queue("mails"))
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	worker.Handle(mux, mail, effect)
	_, err := engine.New(engine.Config{Queues: []string{"mails", "mials"}}, mux, w.store, w.log, w.index, w.log)
	if err == nil || !strings.Contains(err.Error(), `(worker.queues): no kind of queue "mials" has a handler`) {
		t.Errorf("got %v, want a refusal of the queue", err)
	}

	stop := w.run(w.worker(mux, engine.Config{Queues: []string{"mails", "mails"}, Kinds: kinds.New([]string{"mails"})}))
	w.publish(w.due(meal, 3)...)
	w.publish(w.dueIn(mail, 3, time.Second)...)
	pipelinetest.Await(t, "its own queue", func() bool { return w.settled("mail.send", "done") == 3 })
	want(t, "another queue's tasks done", w.settled("meal", "done"), 0)
	want(t, "stop", stop(), nil)
	stop = w.run(w.worker(mux, engine.Config{}))
	pipelinetest.Await(t, "the other queue", func() bool { return w.settled("meal", "done") == 3 })
	want(t, "stop", stop(), nil)
}

func TestQueueThatTheConfigurationLacksIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mail := task.NewKind[payload]("mail.send", task.Queue("mails"))
	mux := worker.NewMux()
	worker.Handle(mux, mail, effect)
	known := kinds.New([]string{"default"})
	w.worker(mux, engine.Config{Kinds: known})
	err := known.CheckHandled(func(queue string) (bool, error) { return w.store.HoldQueue(t.Context(), w.store.DB(), queue) })
	if err == nil || !strings.Contains(err.Error(), `"mails" of kind mail.send`) {
		t.Errorf("got %v, want a refusal of the queue", err)
	}

	var answer error
	mux = worker.NewMux()
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		_, answer = tx.Schedule(ctx, mail.New("ann", payload{}, task.In(time.Hour)))
		return effect(ctx, tx, tk)
	})
	made := w.due(meal, 1)
	w.pass(w.worker(mux, engine.Config{Kinds: kinds.New([]string{"default"})}), made...)
	var field *task.FieldError
	if !errors.As(answer, &field) || field.Field != "queue" {
		t.Errorf("got %v for what a handler schedules, want a refusal of the queue", answer)
	}
	want(t, "state", w.store.Row(made[0].ID).State, task.Done)
	want(t, "tasks", w.store.Number("SELECT COUNT(*) FROM duetime_tasks"), 1)
}
