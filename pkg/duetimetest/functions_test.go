package duetimetest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/duetimetest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Middleware, hooks, and what sees specs and changes work in a test as in production.
func TestFireCallsTheServicesFunctions(t *testing.T) {
	t.Parallel()
	s := onMySQL(t)
	var got []string
	before := duetimetest.BeforeSchedule(func(_ context.Context, spec task.Spec) (task.Spec, error) {
		if spec.Owner() == "bob" {
			return spec, errors.New("no such owner")
		}
		return spec.With(task.Subject("seen")), nil
	})
	var inside, after int // changes that were seen
	in := duetimetest.InChange(func(_ context.Context, _ *schedule.Tx, changes []schedule.Change) error {
		inside += len(changes)
		return nil
	})
	on := duetimetest.OnChange(func(_ context.Context, changes []schedule.Change) { after += len(changes) })
	mux := worker.NewMux()
	mux.Use(func(next worker.HandlerFunc) worker.HandlerFunc {
		return func(ctx context.Context, tasks []task.Task) error {
			got = append(got, "call "+tasks[0].Kind)
			return next(ctx, tasks)
		}
	})
	mux.OnEvent(func(_ context.Context, e worker.Event) { got = append(got, e.Name+" "+e.Task.Kind+" "+e.Task.Subject) })
	worker.Handle(mux, expire, func(ctx context.Context, tx *worker.Tx, w worker.Task[Expire]) error {
		_, err := tx.Schedule(ctx, remind.New("ann", w.Payload, task.In(time.Hour)))
		return err
	})
	worker.Handle(mux, remind, effect)
	client := duetimetest.Client(t, s.db, before, in)
	_, err := client.Schedule(t.Context(), expire.New("ann", Expire{Order: 1}, task.In(time.Hour)))
	pipelinetest.Must(t, err)
	if _, err := client.Schedule(t.Context(), expire.New("bob", Expire{Order: 1}, task.In(time.Hour))); err == nil {
		t.Error("a refused task was scheduled")
	}
	if inside != 1 {
		t.Errorf("the client's function saw %d changes, want 1", inside)
	}
	duetimetest.Fire(t, s.db, mux, s.now.Add(3*time.Hour), before, in, on)
	if inside != 4 || after != 3 { // the end of two tasks, and a follow-up
		t.Errorf("Fire's functions saw %d changes in transactions and %d afterwards, want 3", inside-1, after)
	}
	want := []string{"call order.expire", "done order.expire seen", "call order.remind", "done order.remind seen"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// What the documentation shows is a test that passes.
func TestExample(t *testing.T) {
	t.Parallel()
	unpaidOrderExpires(t)
}

// A kind has its own time in Fire too, be it longer than that of others.
func TestFireKeepsTimeouts(t *testing.T) {
	t.Parallel()
	s := onMySQL(t)
	slow := task.NewKind[Expire]("order.slow", task.Timeout(time.Minute))
	hasty := task.NewKind[Expire]("order.hasty", task.Timeout(50*time.Millisecond), task.MaxAttempts(1))
	mux := worker.NewMux()
	worker.Handle(mux, slow, func(ctx context.Context, tx *worker.Tx, w worker.Task[Expire]) error {
		if deadline, _ := ctx.Deadline(); time.Until(deadline) < 30*time.Second {
			t.Errorf("the slow kind has %v", time.Until(deadline))
		}
		return effect(ctx, tx, w)
	})
	worker.HandleOutside(mux, hasty, func(ctx context.Context, _ worker.Task[Expire]) error {
		<-ctx.Done()
		return ctx.Err()
	})
	s.schedule(slow.New("ann", Expire{}, task.In(time.Hour)), hasty.New("ann", Expire{}, task.In(2*time.Hour)))
	var got []string
	for _, f := range duetimetest.Fire(t, s.db, mux, s.now.Add(3*time.Hour)) {
		got = append(got, f.Kind+" "+f.Result)
	}
	if diff := cmp.Diff([]string{"order.slow done", "order.hasty dead"}, got); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
}
