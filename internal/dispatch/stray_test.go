package dispatch

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
)

// Rows of other programs have names that no hint can carry, or a queue without a topic. Their hints are published all
// the same.
func TestForeignEntriesArePublishedAllTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldtest.Memory(t).Addr(), Config{Queues: []string{"default", "bad"}})
	var rows []task.Task
	for _, change := range []func(*task.Task){
		func(r *task.Task) { r.Owner = "{6F9619FF-8B86-D011-B42D-00CF4FC964FF}" },
		func(r *task.Task) { r.Owner = strings.Repeat("玩", 64) },
		func(r *task.Task) { r.Owner = "" },
		func(r *task.Task) { r.Owner = " a\x1fb\n" },
		func(r *task.Task) { r.Kind = strings.Repeat("餐", 64) },
		func(r *task.Task) { r.Kind = "" },
		func(r *task.Task) { r.Queue = "" },
		func(r *task.Task) { r.Queue = "no such:queue" },
		func(r *task.Task) { r.Queue = "unheard-of" },
		func(r *task.Task) { r.ID = task.ID{} },
		func(r *task.Task) { r.Version = -1 },
		func(r *task.Task) { r.RunAt = r.RunAt.AddDate(-100, 0, 0) },
		func(r *task.Task) { r.RunAt = r.RunAt.AddDate(5000, 0, 0) }, // a worker makes the task dead
	} {
		row := pending("default", at(-10))
		change(&row)
		rows = append(rows, row)
	}
	pipelinetest.Must(t, w.index.Put(t.Context(), rows))
	s := w.shard(0, 1, nil)
	for range 3 {
		pass(t, s)
	}
	for i, row := range rows {
		if n := w.stream.hints(row); n != 1 {
			t.Errorf("row %d: %d hints", i, n)
		}
	}
	if n := w.count(t); n != 0 {
		t.Errorf("%d entries were not acknowledged", n)
	}
}

// Each version of a task whose queue has no topic goes to another configured queue.
func TestStrayGoesToAnotherQueueEachTime(t *testing.T) {
	t.Parallel()
	cfg := Config{Queues: []string{"a", "b", "c"}}
	seen := map[string]bool{}
	for version := range int64(3) {
		row := pending("unheard-of", base)
		row.Version = version
		seen[cfg.substituteQueue(protocol.Entry{Score: protocol.ScoreOf(row)})] = true
	}
	if len(seen) != 3 {
		t.Errorf("it came by %v", seen)
	}
}

// A queue that only its service has configured runs all the same. A warning is logged once a minute.
func TestQueueOutsideTheConfigurationIsNamed(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	w := newWorld(t, worldtest.Memory(t).Addr(), Config{
		Queues: []string{"default"}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	row := pending("bad", at(-10)) // the stream of these tests has a topic for this queue
	pipelinetest.Must(t, w.index.Put(t.Context(), []task.Task{row}))
	s := w.shard(0, 1, nil)
	for range 3 {
		pass(t, s)
	}
	if n := w.stream.hints(row); n != 1 {
		t.Errorf("%d hints, want 1", n)
	}
	warnings := func(want int) {
		t.Helper()
		pipelinetest.Must(t, w.learnQueues(t.Context()))
		if n := strings.Count(log.String(), "queue is not in the configuration of this process"); n != want {
			t.Errorf("%d warnings, want %d:\n%s", n, want, log.String())
		}
	}
	warnings(1)
	w.noteStrays([]protocol.Entry{{Queue: "bad"}, {Queue: "default"}, {Queue: protocol.WitnessQueue}})
	warnings(1)
	w.noteStrays([]protocol.Entry{{Queue: "pushes"}})
	w.cfg.Added = func(context.Context) ([]string, error) { return []string{"pushes"}, nil } // added before its first task
	warnings(1)
	w.cfg.Added = func(context.Context) ([]string, error) { return nil, nil }
	warnings(1)
	w.noteStrays([]protocol.Entry{{Queue: "pushes"}}) // retired
	warnings(2)
}

// A queue that an operator adds is none of the strays from the next look on, and again from its retirement on.
func TestAddedQueueIsNoStray(t *testing.T) {
	t.Parallel()
	var added atomic.Pointer[[]string]
	added.Store(&[]string{})
	w := newWorld(t, worldtest.Memory(t).Addr(), Config{
		Queues: []string{"default"}, Added: func(context.Context) ([]string, error) { return *added.Load(), nil },
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Lead(ctx, 1, w.term) }()
	entry := protocol.Entry{Queue: "pushes"}
	pipelinetest.Await(t, "a stray", func() bool { return w.isStray(entry) })
	added.Store(&[]string{"pushes"})
	pipelinetest.Await(t, "no stray", func() bool { return !w.isStray(entry) })
	added.Store(&[]string{})
	pipelinetest.Await(t, "a stray again", func() bool { return w.isStray(entry) })
	stop()
	pipelinetest.Must(t, <-ended)
}
