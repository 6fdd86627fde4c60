package worker

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/settle"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// A worker looks for a renamed kind's tasks under both names, holds them by the kind's priority, and reports both.
func TestNamesOfARenamedKind(t *testing.T) {
	t.Parallel()
	mux := worker.NewMux()
	kind := task.NewKind[int]("feed.done", task.Was("meal.done"), task.Priority(task.High))
	worker.Handle(mux, kind, func(context.Context, *worker.Tx, worker.Task[int]) error { return nil })
	w, err := New(Config{}, mux, struct{ Store }{}, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	both := []string{"feed.done", "meal.done"}
	if diff := cmp.Diff(both, w.queues[0].looker.kinds); diff != "" {
		t.Errorf("looked for (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(both, mux.Kinds()); diff != "" {
		t.Errorf("kinds of the mux (-want +got):\n%s", diff)
	}
	var held []string
	h := &settle.Handler{Info: kind.Info()}
	for _, info := range (handlers{"feed.done": h, "meal.done": h}).infos([]string{"default"}) {
		held = append(held, info.Name)
	}
	if diff := cmp.Diff(both, held); diff != "" {
		t.Errorf("held by priority (-want +got):\n%s", diff)
	}
}
