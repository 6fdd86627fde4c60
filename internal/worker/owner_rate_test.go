package worker_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Three workers keep the rate of each owner. Two have crowds, which take seconds: they hold up no other owner, and run at the rate, also
// when a worker is stopped. No hint comes of one crowd, nor of what was put off: looks find these, and leave other workers' owners alone.
func TestOwnerRate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const rate, crowd, others, each = 20, 160, 5, 8
	var mu sync.Mutex
	ran := map[string][]time.Time{}
	count := func(owner string) int {
		mu.Lock()
		defer mu.Unlock()
		return len(ran[owner])
	}
	of := func(n int, owner func(i int) string) []task.Task {
		specs := make([]task.Spec, n)
		for i := range specs {
			specs[i] = meal.New(owner(i), payload{}, task.In(0))
		}
		return w.schedule(specs...)
	}
	w.publish(of(crowd, func(int) string { return "crowd" })...)
	w.publish(of(others*each, func(i int) string { return fmt.Sprint("other", i%others) })...)
	of(crowd, func(int) string { return "unheard" })
	cfg := engine.Config{
		Late:   100 * time.Millisecond,
		Limits: map[string]task.Limit{"default": {OwnerRate: task.Rate{Calls: rate, Per: time.Second}}},
	}
	stops := w.team(3, cfg, func(ctx context.Context, _ string, tx *worker.Tx, t worker.Task[payload]) error {
		if err := effect(ctx, tx, t); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		ran[t.Owner] = append(ran[t.Owner], time.Now())
		return nil
	})
	for o := range others {
		pipelinetest.Await(t, "another owner's tasks", func() bool { return count(fmt.Sprint("other", o)) >= each })
	}
	if got := count("crowd"); got >= crowd {
		t.Errorf("others waited until all %d of the crowd had run", got)
	}
	if w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 0 AND attempt = 0 AND last_error LIKE 'never run: limited until %'") == 0 {
		t.Error("nothing of the crowd was put off")
	}
	pipelinetest.Await(t, "half of the crowd without hints", func() bool { return count("unheard") >= crowd/2 })
	want(t, "stop of a worker", stops[0](), nil)
	pipelinetest.Await(t, "all are done", func() bool { return w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 0") == 0 })
	for _, stop := range stops[1:] {
		want(t, "stop of a worker", stop(), nil)
	}
	// The times are those of the calls, which a slow machine delays. Without a rate all of a crowd would run at once.
	for owner, at := range ran {
		for i := range at {
			for j := i + 1; j < len(at); j++ {
				if most := int(at[j].Sub(at[i]).Seconds()*rate) + 4*rate; j-i > most {
					t.Fatalf("%d calls of %s in %v, want at most %d", j-i, owner, at[j].Sub(at[i]), most)
				}
			}
		}
	}
	want(t, "effects", w.store.Number("SELECT COUNT(*) FROM effects"), 2*crowd+others*each)
	want(t, "tasks with an effect", w.store.Number("SELECT COUNT(DISTINCT task_id) FROM effects"), 2*crowd+others*each)
	want(t, "last errors", w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE last_error <> ''"), 0)
}

// Tasks of one order key take effect in order at the key's rate, though each tenth fails at first, and those behind it come and go meanwhile.
func TestOwnerRateInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 40
	var mu sync.Mutex
	var ran []string
	failed := map[string]bool{}
	mux := worker.NewMux()
	worker.Handle(mux, march, func(_ context.Context, _ *worker.Tx, t worker.Task[payload]) error {
		mu.Lock()
		defer mu.Unlock()
		if word := t.Payload.Word; len(word) == 2 && word[1] == '5' && !failed[word] {
			failed[word] = true
			return errors.New("not yet")
		}
		ran = append(ran, t.Payload.Word)
		return nil
	})
	w.run(w.worker(mux, engine.Config{
		Late:   soon,
		Limits: map[string]task.Limit{"default": {OwnerRate: task.Rate{Calls: 10, Per: time.Second}}},
	}))
	specs, want := make([]task.Spec, n), make([]string, n)
	for i := range specs {
		want[i] = fmt.Sprintf("%02d", i)
		specs[i] = march.New(fmt.Sprint("owner", i), payload{Word: want[i]}, task.In(0), task.OrderKey("column"))
	}
	w.publish(w.schedule(specs...)...)
	pipelinetest.Await(t, "all are done", func() bool { return w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 1") == n })
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(ran, want) {
		t.Errorf("they ran as %v", ran)
	}
}

// No hint comes of some tasks, and two workers look. They run where their owners' hints come to, so that one worker keeps an owner's rate.
func TestLooksKeepOwnersApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const owners = 40
	var mu sync.Mutex
	last, n := map[string]string{}, 0 // the worker that ran an owner's last task
	cfg := engine.Config{
		Late:   soon,
		Limits: map[string]task.Limit{"default": {OwnerRate: task.Rate{Calls: 1_000_000, Per: time.Second}}},
	}
	w.team(2, cfg, func(_ context.Context, name string, _ *worker.Tx, t worker.Task[payload]) error {
		mu.Lock()
		defer mu.Unlock()
		last[t.Owner] = name
		n++
		return nil
	})
	runs := func(made []task.Task) (in map[string]string, workers int) {
		t.Helper()
		pipelinetest.Await(t, "the tasks", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return n >= len(made)
		})
		mu.Lock()
		defer mu.Unlock()
		n, in = 0, maps.Clone(last)
		return in, len(slices.Compact(slices.Sorted(maps.Values(in))))
	}
	var home map[string]string
	pipelinetest.Await(t, "both workers have joined", func() bool {
		made := w.due(meal, owners)
		w.publish(made...)
		in, workers := runs(made)
		before := home
		home = in
		return workers == 2 && maps.Equal(in, before)
	})
	for range 3 {
		if in, _ := runs(w.due(meal, owners)); !maps.Equal(in, home) {
			t.Errorf("tasks ran in %v, want %v", in, home)
		}
	}
}
