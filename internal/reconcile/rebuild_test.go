package reconcile

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
)

// recorder records the order in which tasks are filled in, and runs a hook before each page; pages may be concurrent.
type recorder struct {
	Index
	before func()

	mu     sync.Mutex
	filled []task.Task
	most   int // tasks of one call
}

func (r *recorder) Fill(ctx context.Context, tasks []task.Task) ([]task.Task, error) {
	if r.before != nil {
		r.before()
	}
	r.mu.Lock()
	r.filled = append(r.filled, tasks...)
	r.most = max(r.most, len(tasks))
	r.mu.Unlock()
	return r.Index.Fill(ctx, tasks)
}

// many makes tasks of several owners, the latest first.
func many(n int) []task.Task {
	all := make([]task.Task, n)
	for i := range all {
		all[i] = pending([]string{"ann", "bob", "cid", "dan", "eve"}[i%5], time.Duration(n-i)*time.Minute)
	}
	return all
}

func (w *world) marked(t testing.TB) bool {
	t.Helper()
	marks, err := w.sets.Marked(t.Context(), shards)
	pipelinetest.Must(t, err)
	return !slices.Contains(marks, false)
}

func TestRebuildFillsTheNearestFirstAndMarksLast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	w.insert(t, many(page+300)...)
	rec := &recorder{Index: w.index}
	rec.before = func() {
		if marks, err := w.sets.Marked(t.Context(), shards); err != nil || slices.Contains(marks, true) {
			t.Errorf("marked %v, %v before all entries stand", marks, err)
		}
	}
	w.index = rec
	if res := w.run(t, new(rebuild).pass); res.More || !w.marked(t) {
		t.Errorf("got %+v and marked %v, want it done", res, w.marked(t))
	}
	if !slices.IsSortedFunc(rec.filled, func(a, b task.Task) int { return a.RunAt.Compare(b.RunAt) }) {
		t.Error("entries were not filled in the order of their time")
	}
	if rec.most > page {
		t.Errorf("a call had %d entries: a busy Redis answers %d in time", rec.most, page)
	}
	w.wantTruth(t)
	rec.filled = nil
	w.run(t, new(rebuild).pass)
	if len(rec.filled) > 0 {
		t.Error("shards whose marker stands were rebuilt")
	}
}

// unhurried is an index that reads the markers slowly.
type unhurried struct{ Index }

func (u unhurried) Marked(ctx context.Context, shards int) ([]bool, error) {
	time.Sleep(200 * time.Millisecond)
	return u.Index.Marked(ctx, shards)
}

func TestLostIndexIsNoDriftToATermThatBegins(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	var rows []task.Task
	for range 10 {
		rows = append(rows, soon("ann"))
	}
	w.insert(t, rows...)
	w.flush(t)
	w.index = unhurried{w.index}
	stop := lead(t, w.Reconciler, 1, &worldtest.Term{})
	pipelinetest.Await(t, "the markers", func() bool { return w.marked(t) })
	w.wantTruth(t)
	if n := w.alarms.Load(); n != 0 {
		t.Errorf("%d alarms, each of which has everything audited; want the rebuild alone to put what was lost", n)
	}
	pipelinetest.Must(t, stop())
}

func TestFlushHealsWhileADaemonLeads(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	for range 5 {
		tasks := many(page)
		for i := range tasks {
			tasks[i].RunAt = time.Now().Add(time.Hour + time.Duration(i)*time.Second)
		}
		w.put(t, w.insert(t, tasks...)...)
	}
	var told worldtest.Term
	stop := lead(t, w.Reconciler, 1, &told)
	pipelinetest.Await(t, "the markers", func() bool { return w.marked(t) })
	for range 2 {
		w.flush(t)
		begun := time.Now()
		pipelinetest.Await(t, "the markers after the flush", func() bool { return w.marked(t) })
		t.Logf("healed after %v", time.Since(begun))
		w.wantTruth(t)
	}
	pipelinetest.Must(t, stop())
}
