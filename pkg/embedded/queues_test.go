package embedded_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/embedded"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// A queue that the configuration lacks is refused by its name, before its tasks wait forever. The error speaks of this
// package: there is no Kafka here.
func TestQueuesThatTheConfigurationLacks(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	p, err := embedded.OpenSQLite(ctx, filepath.Join(t.TempDir(), "a.db"), embedded.Config{Queues: []string{"default", "mails"}})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, p.Close(context.Background())) })
	refused := func(what string, err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(strings.ToLower(err.Error()), "kafka") {
			t.Errorf("%s: got %v, want %s, and no word of Kafka", what, err, want)
		}
	}
	_, err = p.Schedule(ctx, count.New("ann", note{}, task.In(time.Hour)))
	refused("schedule", err, `queue "slow" of kind bell.count is none of the configuration's: default, mails`)
	mux := worker.NewMux()
	worker.Handle(mux, ring, effect)
	worker.Handle(mux, count, effect)
	refused("work", p.Work(ctx, mux), `queue "slow" of kind bell.count`)

	bare, err := embedded.OpenSQLite(ctx, filepath.Join(t.TempDir(), "b.db"), embedded.Config{})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, bare.Close(context.Background())) })
	_, err = bare.Schedule(ctx, count.New("ann", note{}, task.In(time.Hour)))
	pipelinetest.Must(t, err) // a pipeline without Work may schedule for any queue
	refused("work without queues", bare.Work(ctx, mux), `queue "slow" of kind bell.count is none of the configuration's: default`)
	_, err = bare.Schedule(ctx, count.New("ann", note{}, task.In(time.Hour)))
	refused("schedule beside Work", err, `queue "slow"`)

	_, err = embedded.OpenSQLite(ctx, filepath.Join(t.TempDir(), "c.db"), embedded.Config{Queues: []string{"no blanks"}})
	refused("a queue's name", err, `"no blanks" must be 1 to`)
}

// A queue that is added while the pipeline is open takes tasks at once, and Work runs them.
func TestAddedQueueRuns(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	p, err := embedded.OpenSQLite(ctx, filepath.Join(t.TempDir(), "a.db"), embedded.Config{Queues: []string{"default"}})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, p.Close(context.Background())) })
	_, err = p.Console().AddQueue(ctx, "slow")
	pipelinetest.Must(t, err)
	made, err := p.Schedule(ctx, count.New("ann", note{}, task.In(0)))
	pipelinetest.Must(t, err)
	mux := worker.NewMux()
	worker.Handle(mux, count, func(context.Context, *worker.Tx, worker.Task[note]) error { return nil })
	go func() { _ = p.Work(ctx, mux) }()
	pipelinetest.Await(t, "the task to run", func() bool {
		row, err := p.Get(ctx, made.ID)
		pipelinetest.Must(t, err)
		return row.State == task.Done
	})
}
