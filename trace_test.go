package duetime_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/duetime/duetime"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// traced is a service whose spans stay in memory, like those of its event process.
type traced struct {
	t      *testing.T
	cfg    duetime.Config
	spans  *tracetest.InMemoryExporter
	tracer trace.Tracer
	client *duetime.Client
	db     *sql.DB
	failed failureLog
}

// failureLog receives the spans within which failures of handlers are logged.
type failureLog chan trace.SpanContext

func (failureLog) Enabled(context.Context, slog.Level) bool { return true }
func (l failureLog) WithAttrs([]slog.Attr) slog.Handler     { return l }
func (l failureLog) WithGroup(string) slog.Handler          { return l }

func (l failureLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "handler failed" {
		l <- trace.SpanContextFromContext(ctx)
	}
	return nil
}

func newTraced(t *testing.T, mux *worker.Mux) *traced {
	t.Helper()
	s := &traced{t: t, spans: tracetest.NewInMemoryExporter(), failed: make(failureLog, 100)}
	provider := sdk.NewTracerProvider(sdk.WithSyncer(s.spans))
	s.tracer = provider.Tracer("test")
	dsn := pipelinetest.MySQL(t).NewSchema(t)
	s.cfg = configured(t, dsn)
	p := migrated(t, s.cfg)
	p.Tracer = provider
	event(t, p)
	joined := make(chan struct{}, 1)
	s.client = newClient(t, s.cfg, duetime.WithTracer(provider), duetime.WithLogger(slog.New(s.failed)), duetime.OnJoined(func() { joined <- struct{}{} }))
	var err error
	s.db, err = sql.Open("mysql", dsn+"?"+pipelinetest.IsolationVariable(t)+"=%27READ-COMMITTED%27")
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, s.db.Close()) })
	inBackground(t, func(ctx context.Context) error { return s.client.Work(ctx, mux) })
	select {
	case <-joined:
	case <-time.After(time.Minute):
		t.Fatal("no group joined")
	}
	return s
}

// find waits for ended spans of a name that meet the condition, and returns them.
func (s *traced) find(name string, is func(tracetest.SpanStub) bool) tracetest.SpanStub {
	s.t.Helper()
	var found tracetest.SpanStub
	pipelinetest.Await(s.t, "a span "+name, func() bool {
		spans := s.spans.GetSpans()
		i := slices.IndexFunc(spans, func(span tracetest.SpanStub) bool { return span.Name == name && is(span) })
		if i >= 0 {
			found = spans[i]
		}
		return i >= 0
	})
	return found
}

// stored returns the trace context in the task's row.
func (s *traced) stored(id task.ID) string {
	s.t.Helper()
	var parent string
	pipelinetest.Must(s.t, s.db.QueryRowContext(s.t.Context(), "SELECT traceparent FROM duetime_tasks WHERE id = ?", id[:]).Scan(&parent))
	return parent
}

// about reports whether the span concerns the task.
func about(id task.ID) func(tracetest.SpanStub) bool {
	return func(span tracetest.SpanStub) bool {
		return slices.ContainsFunc(span.Attributes, func(a attribute.KeyValue) bool {
			return a.Key == "duetime.task_id" && a.Value.AsString() == id.String()
		})
	}
}

// leadsTo reports whether the span links to another span.
func leadsTo(to trace.SpanContext) func(tracetest.SpanStub) bool {
	return func(span tracetest.SpanStub) bool {
		return slices.ContainsFunc(span.Links, func(l sdk.Link) bool {
			return l.SpanContext.TraceID() == to.TraceID() && l.SpanContext.SpanID() == to.SpanID()
		})
	}
}

// TestTraceFromTheCallToTheEffect follows a request through the row and Kafka to its handler, and on to the task that the
// handler schedules.
func TestTraceFromTheCallToTheEffect(t *testing.T) {
	t.Parallel()
	followed := task.NewKind[Meal]("followed")
	last := make(chan task.ID, 1)
	mux := worker.NewMux()
	worker.Handle(mux, MealFinished, func(ctx context.Context, tx *worker.Tx, _ worker.Task[Meal]) error {
		next, err := tx.Schedule(ctx, followed.New("bob", Meal{}, task.In(0)))
		if err == nil {
			last <- next.ID
		}
		return err
	})
	worker.HandleBatch(mux, followed, func(context.Context, *worker.Tx, []worker.Task[Meal]) error { return nil })
	s := newTraced(t, mux)

	ctx, request := s.tracer.Start(t.Context(), "request")
	var meal task.Task
	pipelinetest.Must(t, s.client.InTx(ctx, func(tx *schedule.Tx) (err error) {
		meal, err = tx.Schedule(ctx, MealFinished.New("ada", Meal{Pet: 1}, task.In(300*time.Millisecond)))
		return err
	}))
	request.End()

	scheduling := s.find("duetime.schedule", about(meal.ID))
	if scheduling.Parent.SpanID() != request.SpanContext().SpanID() || scheduling.SpanKind != trace.SpanKindClient {
		t.Errorf("the scheduling is a %v below %v, want a client below the request", scheduling.SpanKind, scheduling.Parent.SpanID())
	}
	want := "00-" + scheduling.SpanContext.TraceID().String() + "-" + scheduling.SpanContext.SpanID().String() + "-01"
	if got := s.stored(meal.ID); got != want {
		t.Errorf("the row keeps %q, want %q", got, want)
	}
	run := s.find("duetime.run", about(meal.ID))
	if !leadsTo(scheduling.SpanContext)(run) || run.SpanKind != trace.SpanKindConsumer || run.Parent.IsValid() {
		t.Errorf("the run is a %v below %v with links %v, want a consumer of its own that leads to the scheduling", run.SpanKind, run.Parent, run.Links)
	}
	publishing := s.find("duetime.publish", func(span tracetest.SpanStub) bool { return leadsTo(span.SpanContext)(run) })
	if publishing.SpanKind != trace.SpanKindProducer {
		t.Errorf("the publishing is a %v, want a producer", publishing.SpanKind)
	}
	s.find("duetime.run", leadsTo(run.SpanContext)) // then the handler's transaction has committed
	if got := s.stored(<-last); !strings.Contains(got, run.SpanContext.SpanID().String()) {
		t.Errorf("what the handler scheduled keeps %q, want its run %v", got, run.SpanContext.SpanID())
	}
}

// TestFailureIsLoggedInItsTrace has a handler fail, whose run has a trace of its own.
func TestFailureIsLoggedInItsTrace(t *testing.T) {
	t.Parallel()
	mux := worker.NewMux()
	worker.Handle(mux, MealFinished, func(context.Context, *worker.Tx, worker.Task[Meal]) error { return worker.Discard(errors.New("burnt")) })
	s := newTraced(t, mux)
	made, err := s.client.Schedule(t.Context(), MealFinished.New("ada", Meal{}, task.In(0)))
	pipelinetest.Must(t, err)
	run := s.find("duetime.run", about(made.ID))
	if got := <-s.failed; got.SpanID() != run.SpanContext.SpanID() {
		t.Errorf("the failure is logged in the span %v, want the run %v", got.SpanID(), run.SpanContext.SpanID())
	}
}

// TestEveryWayToScheduleIsTraced schedules in the ways other than InTx.
func TestEveryWayToScheduleIsTraced(t *testing.T) {
	t.Parallel()
	mux := worker.NewMux()
	worker.Handle(mux, MealFinished, func(context.Context, *worker.Tx, worker.Task[Meal]) error { return nil })
	s := newTraced(t, mux)
	ctx := t.Context()
	for way, schedule := range map[string]func(task.Spec) (task.Task, error){
		"alone": func(spec task.Spec) (task.Task, error) { return s.client.Schedule(ctx, spec) },
		"joined": func(spec task.Spec) (task.Task, error) {
			tx, err := s.db.BeginTx(ctx, nil)
			pipelinetest.Must(t, err)
			joined := s.client.Join(tx)
			made, err := joined.Schedule(ctx, spec)
			pipelinetest.Must(t, joined.Commit(ctx))
			return made, err
		},
	} {
		made, err := schedule(MealFinished.New("ada", Meal{}, task.In(0)))
		pipelinetest.Must(t, err)
		span := s.find("duetime.schedule", about(made.ID))
		if got := s.stored(made.ID); !strings.Contains(got, span.SpanContext.SpanID().String()) {
			t.Errorf("%s: the row keeps %q, want the span %v", way, got, span.SpanContext.SpanID())
		}
		if run := s.find("duetime.run", about(made.ID)); !leadsTo(span.SpanContext)(run) {
			t.Errorf("%s: the run doesn't lead to the scheduling: %v", way, run.Links)
		}
	}
}

// TestUntracedLeavesNothing uses a program that has set no tracer.
func TestUntracedLeavesNothing(t *testing.T) {
	t.Parallel()
	k := newKitchen(t)
	k.work()
	made, err := k.client.Schedule(t.Context(), MealFinished.New("ada", Meal{Pet: 1}, task.In(0)))
	pipelinetest.Must(t, err)
	pipelinetest.Await(t, "the meal", func() bool { return k.eaten(1) > 0 })
	var parent string
	pipelinetest.Must(t, k.db.GetContext(t.Context(), &parent, "SELECT traceparent FROM duetime_tasks WHERE id = ?", made.ID[:]))
	if parent != "" {
		t.Errorf("the row keeps %q, want nothing", parent)
	}
	for partition := range 4 {
		for _, m := range k.records(partition) {
			if len(m.Headers) > 0 {
				t.Errorf("a hint has the headers %v, want none", m.Headers)
			}
		}
	}
}

// namespace returns the schema's namespace.
func (k *kitchen) namespace() (name string) {
	k.t.Helper()
	pipelinetest.Must(k.t, k.db.GetContext(k.t.Context(), &name, "SELECT namespace FROM duetime_layout"))
	return name
}

// records reads what stands in a partition of the queue's topic.
func (k *kitchen) records(partition int) []kafka.Message {
	k.t.Helper()
	conn, err := kafka.DialLeader(k.t.Context(), "tcp", pipelinetest.Kafka(k.t).Addr(), k.namespace()+".q.default", partition)
	pipelinetest.Must(k.t, err)
	defer func() { _ = conn.Close() }()
	end, err := conn.ReadLastOffset()
	pipelinetest.Must(k.t, err)
	var all []kafka.Message
	for offset := int64(0); offset < end; offset++ {
		m, err := conn.ReadMessage(1 << 20)
		pipelinetest.Must(k.t, err)
		all = append(all, m)
	}
	return all
}
