package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/internal/test/streamtest"
	"github.com/duetime/duetime/internal/test/worldtest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

const (
	childEnv    = "DUETIME_WORKER_TEST_CHILD"
	killed      = 7 // exit code of a process that a handler ended
	childFailed = 1
)

// crash is a kind whose handler ends the process for some payloads.
var crash = task.NewKind[payload]("crash", task.MaxAttempts(4))

// childMain is a worker process on the SQLite file: it finds all pending tasks in its partitions, as one does whose
// predecessor committed nothing, and ends when none of them is pending any more.
func childMain(path string) int {
	if err := child(path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return childFailed
	}
	return 0
}

func child(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	s, err := store.OpenSQLite(path)
	if err != nil {
		return err
	}
	log := streamtest.New(stream.Config{Namespace: "test", Partitions: 3})
	pending, err := s.Pending(ctx, time.Unix(0, 0), time.Now().Add(time.Second), protocol.Cursor{}, 1000)
	if err != nil {
		return err
	}
	if err := errors.Join(log.Publish(ctx, worldtest.Entries(pending...), 1)...); err != nil {
		return err
	}
	mux := worker.NewMux()
	handler := func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		if strings.HasPrefix(tk.Payload.Word, "kill") {
			os.Exit(killed)
		}
		return effect(ctx, tx, tk)
	}
	worker.Handle(mux, crash, handler)
	worker.Handle(mux, last, handler)
	wk, err := engine.New(engine.Config{Concurrency: 2, BatchTime: time.Second}, mux, s, log, worldtest.Nowhere{}, log)
	if err != nil {
		return err
	}
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			n, err := s.Overdue(ctx, 0)
			if err != nil || n == 0 {
				return
			}
			time.Sleep(5 * time.Millisecond) // between two looks
		}
	}()
	return wk.Run(ctx)
}

// last is a kind with a single attempt, of which the crash of a neighbour must not take it.
var last = task.NewKind[payload]("last", task.MaxAttempts(1))

// Two tasks end every process that runs them. They must end dead, after their attempts; nobody else may.
func TestTaskThatKillsItsProcessIsDeadAfterItsAttempts(t *testing.T) {
	t.Parallel()
	w := onStore(t, worldtest.NewSQLite(t, "test"))
	var specs []task.Spec
	for i := range 30 {
		word := "innocent"
		if i == 5 || i == 20 {
			word = "kill"
		}
		kind := crash
		if i%10 == 9 {
			kind = last
		}
		specs = append(specs, kind.New(fmt.Sprintf("owner%d", i), payload{Word: word}, task.In(0)))
	}
	tasks := w.schedule(specs...)
	exits := runUntilClean(t, w.store.DSN)
	t.Logf("%d processes died", exits)
	for i, made := range tasks {
		row := w.store.Row(made.ID)
		if i == 5 || i == 20 {
			want(t, fmt.Sprintf("%d: state", i), row.State, task.Dead)
			want(t, fmt.Sprintf("%d: attempts", i), row.Attempt, 4)
			continue
		}
		want(t, fmt.Sprintf("%d: state", i), row.State, task.Done)
		want(t, fmt.Sprintf("%d: effects", i), w.effects(made.ID), 1)
	}
}

// runUntilClean starts one process after the other until one ends by itself, and tells how many died.
func runUntilClean(t *testing.T, path string) int {
	t.Helper()
	for n := range 20 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+path)
		out, err := cmd.CombinedOutput()
		exit, died := errors.AsType[*exec.ExitError](err)
		switch {
		case err == nil:
			return n
		case !died || exit.ExitCode() != killed:
			t.Fatalf("process %d: %v\n%s", n, err, out)
		}
	}
	t.Fatal("processes keep dying")
	return 0
}
