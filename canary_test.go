package duetime_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/duetime/duetime"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Two versions of a worker share a queue for a while; only one of them knows the newest kind. Hints of that kind which
// reach the other version go on until they reach the one that knows it.
func TestTasksReachTheWorkerThatKnowsTheirKind(t *testing.T) {
	t.Parallel()
	k := newKitchen(t)
	fresh := task.NewKind[Meal]("meal.fresh")
	second := k.another(t)
	oldMux, newMux := worker.NewMux(), worker.NewMux()
	worker.Handle(oldMux, MealFinished, eat)
	worker.Handle(newMux, MealFinished, eat)
	worker.Handle(newMux, fresh, eat)
	inBackground(t, func(ctx context.Context) error { return k.client.Work(ctx, oldMux) })
	<-k.joined
	inBackground(t, func(ctx context.Context) error { return second.Work(ctx, newMux) })
	<-k.joined
	const n = 40
	for i := range n {
		_, err := k.client.Schedule(t.Context(), fresh.New(fmt.Sprint("player", i), Meal{Pet: int64(i)}, task.In(4*time.Second)))
		pipelinetest.Must(t, err)
	}
	done := func() (n int) {
		pipelinetest.Must(t, k.db.GetContext(t.Context(), &n, "SELECT COUNT(*) FROM duetime_tasks WHERE state = 1"))
		return n
	}
	end := time.Now().Add(2 * time.Minute)
	for done() < n {
		if time.Now().After(end) {
			t.Fatalf("%d of %d tasks have not reached the worker that knows their kind", n-done(), n)
		}
		time.Sleep(50 * time.Millisecond) // between two reads
	}
}

// another is a client of the same deployment, as another process would have.
func (k *kitchen) another(t *testing.T) *duetime.Client {
	t.Helper()
	var schema, namespace string
	pipelinetest.Must(t, k.db.GetContext(t.Context(), &schema, "SELECT DATABASE()"))
	pipelinetest.Must(t, k.db.GetContext(t.Context(), &namespace, "SELECT namespace FROM duetime_layout"))
	cfg := configured(t, fmt.Sprintf("root@tcp(%s)/%s", pipelinetest.MySQL(t).Addr(), schema))
	cfg.Namespace = namespace
	return newClient(t, cfg, duetime.OnJoined(func() { k.joined <- struct{}{} }))
}
