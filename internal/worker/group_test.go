package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// follows is the payload of a follower.
type follows struct {
	Group task.Group `json:"group"`
}

var sum = task.NewKind[follows]("sum")

// group makes a group of n members that are due, each of an owner of its own, whose words are their numbers.
func (w *world) group(name string, n int) (members []task.Task, follower task.ID) {
	w.t.Helper()
	then := sum.New("office", follows{}, task.In(0))
	specs := make([]task.Spec, n)
	for i := range specs {
		specs[i] = meal.New(fmt.Sprintf("owner%d", i), payload{Word: fmt.Sprint(i)}, task.In(0))
	}
	pipelinetest.Must(w.t, w.client().InTx(w.t.Context(), func(tx *schedule.Tx) error {
		_, err := tx.Group(w.t.Context(), name, specs[:min(n, task.MaxPerCall)], task.Follower{Spec: then, Open: true})
		return err
	}))
	for part := range slices.Chunk(specs[min(n, task.MaxPerCall):], task.MaxPerCall) {
		pipelinetest.Must(w.t, w.client().InTx(w.t.Context(), func(tx *schedule.Tx) error {
			_, err := tx.AddToGroup(w.t.Context(), name, part)
			return err
		}))
	}
	pipelinetest.Must(w.t, w.client().InTx(w.t.Context(), func(tx *schedule.Tx) error { return tx.SealGroup(w.t.Context(), name) }))
	for _, spec := range specs {
		members = append(members, w.store.Row(spec.ID()))
	}
	return members, then.ID()
}

// wantFollower wants a follower with the group's counts.
func (w *world) wantFollower(id task.ID, want task.Group) {
	w.t.Helper()
	var got follows
	pipelinetest.Must(w.t, json.Unmarshal(w.store.Row(id).Payload, &got))
	if d := cmp.Diff(follows{want}, got); d != "" {
		w.t.Errorf("payload of the follower (-want +got):\n%s", d)
	}
	if w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE kind = 'sum'") != 1 {
		w.t.Error("there is more than one follower")
	}
}

// someDie discards every fifth task, and fails every seventh once.
func someDie(ctx context.Context, tx *worker.Tx, t worker.Task[payload]) error {
	var n int
	if _, err := fmt.Sscan(t.Payload.Word, &n); err != nil {
		return err
	}
	switch {
	case n%5 == 0:
		return worker.Discard(errors.New("enough"))
	case n%7 == 0 && t.Attempt == 0:
		return errors.New("once")
	}
	return effect(ctx, tx, t)
}

// The follower comes in the transaction of the batch that ends the last member, whose failed calls were undone, and reaches the index.
func TestBatchEndsAGroup(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		members, id := w.group("g", 20)
		mux := worker.NewMux()
		worker.Handle(mux, meal, someDie)
		wk := w.worker(mux, engine.Config{})
		got := w.passAll(wk, members...)
		want(t, "members that failed once", len(slices.DeleteFunc(slices.Clone(members), func(m task.Task) bool { return got[m.ID].Result != "failed" })), 2)
		if n := w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE kind = 'sum'"); n != 0 {
			t.Fatalf("%d followers while two members wait for their next attempts", n)
		}
		w.store.Exec("UPDATE duetime_tasks SET run_at = due_at WHERE state = 0")
		var retried []task.Task
		for _, m := range members {
			if row := w.store.Row(m.ID); row.State == task.Pending {
				retried = append(retried, row)
			}
		}
		w.passAll(wk, retried...)
		w.wantFollower(id, task.Group{Name: "g", Done: 16, Dead: 4})
		if puts := w.index.PutsOf(id); len(puts) != 1 {
			t.Errorf("the follower was put %d times, want once", len(puts))
		}
	})
}

// Workers end members side by side, with failures that split their batches.
func TestWorkersEndAGroupSideBySide(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n, workers = 400, 4
	members, id := w.group("g", n)
	var busy sync.WaitGroup
	for i := range workers {
		mux := worker.NewMux()
		worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, t worker.Task[payload]) error {
			if i == 0 {
				return worker.Discard(errors.New("enough"))
			}
			return effect(ctx, tx, t)
		})
		wk, err := engine.New(patient(engine.Config{Late: -1}), mux, w.store, w.log, w.index, w.log)
		pipelinetest.Must(t, err)
		busy.Go(func() {
			for at := i; at < n; at += 10 * workers {
				var part []task.Task
				for j := at; j < min(n, at+10*workers); j += workers {
					part = append(part, members[j])
				}
				for held := part; len(held) > 0; {
					got := w.pass(wk, held...)
					held = slices.DeleteFunc(slices.Clone(held), func(m task.Task) bool { return got[m.ID].Settled })
				}
			}
		})
	}
	busy.Wait()
	w.wantFollower(id, task.Group{Name: "g", Done: n - n/workers, Dead: n / workers})
}

// A read that runs what is due ends members in its caller's transaction.
func TestReaderEndsAGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, id := w.group("g", 1)
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	want(t, "tasks that the read ran", w.fresh(w.reads(mux, engine.Config{}), "owner0").Done, 1)
	w.wantFollower(id, task.Group{Name: "g", Done: 1})
}
