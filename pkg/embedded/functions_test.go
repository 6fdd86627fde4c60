package embedded_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/embedded"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// What a service gives to a pipeline and to a mux reaches what is scheduled, the handlers and the hooks.
func TestFunctionsOfTheService(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		p := w.pipeline(embedded.Config{BeforeSchedule: func(_ context.Context, spec task.Spec) (task.Spec, error) {
			return spec.With(task.Subject("seen")), nil
		}})
		type key struct{}
		events, values := make(chan worker.Event, 10), make(chan any, 10)
		mux := worker.NewMux()
		mux.OnEvent(func(_ context.Context, e worker.Event) { events <- e })
		mux.Use(func(next worker.HandlerFunc) worker.HandlerFunc {
			return func(ctx context.Context, tasks []task.Task) error {
				return next(context.WithValue(ctx, key{}, len(tasks)), tasks)
			}
		})
		worker.Handle(mux, ring, func(ctx context.Context, tx *worker.Tx, t worker.Task[note]) error {
			values <- ctx.Value(key{})
			_, err := tx.Schedule(ctx, count.New(t.Owner, note{Word: "next"}, task.In(500*time.Millisecond)))
			return err
		})
		worker.Handle(mux, count, effect)
		_, err := p.Schedule(ctx, ring.New("ann", note{Word: "first"}, task.In(0)))
		pipelinetest.Must(t, err)
		working, stop := context.WithCancel(ctx)
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- p.Work(working, mux) }()
		for _, kind := range []string{ring.Name(), count.Name()} {
			select {
			case e := <-events:
				if e.Task.Kind != kind || e.Name != task.EventDone || e.Task.Subject != "seen" {
					t.Errorf("got event %s of %s about %q, want %s of %s", e.Name, e.Task.Kind, e.Task.Subject, task.EventDone, kind)
				}
			case err := <-ended:
				t.Fatalf("Work ended: %v", err)
			case <-time.After(time.Minute):
				t.Fatalf("no event of %s within a minute", kind)
			}
		}
		if got := <-values; got != 1 {
			t.Errorf("the handler's context has %v, want what the middleware left there", got)
		}
		stop()
		pipelinetest.Must(t, <-ended)
	})
}

func TestTimeoutAboveThePipelinesIsRefused(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		p := w.pipeline(embedded.Config{HandlerTimeout: time.Second})
		mux := worker.NewMux()
		worker.Handle(mux, task.NewKind[note]("slow", task.Timeout(time.Minute)), effect)
		err := p.Work(t.Context(), mux)
		if err == nil || !strings.Contains(err.Error(), "kind slow") || !strings.Contains(err.Error(), "HandlerTimeout) of 1s") {
			t.Errorf("got %v, want a refusal that names both timeouts", err)
		}
	})
}
