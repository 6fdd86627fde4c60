package duetime_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duetime/duetime"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// A client's functions see what the service schedules and changes and what its handlers do, and Work refuses a kind with more time than
// the configuration gives.
func TestFunctionsOfTheService(t *testing.T) {
	t.Parallel()
	cfg := configured(t, pipelinetest.MySQL(t).NewSchema(t))
	migrated(t, cfg)
	var inside, after atomic.Int64 // changes that were seen
	client := newClient(t, cfg, duetime.BeforeSchedule(func(_ context.Context, spec task.Spec) (task.Spec, error) {
		return spec.With(task.Subject("seen")), nil
	}), duetime.InChange(func(_ context.Context, _ *schedule.Tx, changes []schedule.Change) error {
		inside.Add(int64(len(changes)))
		return nil
	}), duetime.OnChange(func(_ context.Context, changes []schedule.Change) { after.Add(int64(len(changes))) }))
	ctx := t.Context()
	pipelinetest.Must(t, client.Ready(ctx))

	slow := worker.NewMux()
	worker.Handle(slow, task.NewKind[Meal]("pet.slow", task.Timeout(time.Minute)), eat)
	err := client.Work(ctx, slow)
	if err == nil || !strings.Contains(err.Error(), "kind pet.slow") || !strings.Contains(err.Error(), "of 10s") {
		t.Errorf("got %v, want a refusal that names both timeouts", err)
	}

	next := task.NewKind[Meal]("pet.next")
	mux := worker.NewMux()
	worker.Handle(mux, MealFinished, func(ctx context.Context, tx *worker.Tx, t worker.Task[Meal]) error {
		_, err := tx.Schedule(ctx, next.New(t.Owner, t.Payload, task.In(time.Hour)))
		return err
	})
	events := make(chan worker.Event, 10)
	mux.OnEvent(func(_ context.Context, e worker.Event) { events <- e })
	_, err = client.Schedule(ctx, MealFinished.New("ada", Meal{Pet: 7}, task.In(0)))
	pipelinetest.Must(t, err)
	inBackground(t, func(ctx context.Context) error { return client.Work(ctx, mux) })
	select {
	case e := <-events:
		if e.Name != task.EventDone || e.Task.Subject != "seen" {
			t.Errorf("got event %s of a task about %q", e.Name, e.Task.Subject)
		}
	case <-time.After(time.Minute):
		t.Fatal("no event within a minute")
	}
	var n int
	const followUps = "SELECT COUNT(*) FROM duetime_tasks WHERE kind = 'pet.next' AND subject = 'seen'"
	pipelinetest.Must(t, client.DB().GetContext(ctx, &n, followUps))
	if n != 1 {
		t.Errorf("%d follow-ups were seen, want 1", n)
	}
	// A new task, its end and the follow-up; on a slow machine a look finds the task late, and charges an attempt before it runs.
	if n := inside.Load(); n < 3 {
		t.Errorf("InChange saw %d changes, want 3 at least", n)
	}
	pipelinetest.Await(t, "OnChange sees them", func() bool { return after.Load() >= 3 })
}
