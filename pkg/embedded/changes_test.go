package embedded_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/embedded"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// copies keeps a copy of each task in a table, by InChange, and one in memory, by OnChange.
type copies struct {
	mu       sync.Mutex
	versions map[task.ID]int64
}

func (c *copies) inChange(ctx context.Context, tx *schedule.Tx, changes []schedule.Change) error {
	for _, change := range changes {
		t := change.After
		if _, err := tx.ExecContext(ctx, "REPLACE INTO copies (id, version, due_ms, state) VALUES (?, ?, ?, ?)",
			t.ID[:], t.Version, t.DueAt.UnixMilli(), int(t.State)); err != nil {
			return err
		}
	}
	return nil
}

func (c *copies) onChange(_ context.Context, changes []schedule.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, change := range changes {
		c.versions[change.After.ID] = max(c.versions[change.After.ID], change.After.Version)
	}
}

// Whoever changes a task in the pipeline, the service's copies follow: a call, a handler, the end of a task, a recurrence, an operation,
// the console.
func TestCopiesFollowEachChange(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		seen := &copies{versions: map[task.ID]int64{}}
		p := w.pipeline(embedded.Config{InChange: seen.inChange, OnChange: seen.onChange})
		_, err := p.DB().ExecContext(ctx, "CREATE TABLE copies (id BINARY(16) PRIMARY KEY, version BIGINT, due_ms BIGINT, state INT)")
		pipelinetest.Must(t, err)
		mux := worker.NewMux()
		worker.Handle(mux, ring, func(ctx context.Context, tx *worker.Tx, t worker.Task[note]) error {
			switch t.Payload.Word {
			case "dead":
				return errors.New("no bell") // three times
			case "rest":
				return worker.Snooze(time.Hour)
			case "follow":
				_, err := tx.Schedule(ctx, ring.New(t.Owner, note{Word: "next"}, task.In(time.Hour)))
				return err
			}
			return effect(ctx, tx, t)
		})
		stop := w.work(p, mux)
		dead := w.schedule(p, ring.New("ann", note{Word: "dead"}, task.In(0)))
		rests := w.schedule(p, ring.New("bob", note{Word: "rest"}, task.In(0)))
		follows := w.schedule(p, ring.New("kim", note{Word: "follow"}, task.In(0)))
		_, err = p.Recur(ctx, "hourly", recur.Every(time.Hour), ring.Recurring("tim", note{Word: "tick"}), recur.Policy{})
		pipelinetest.Must(t, err)
		_, err = p.RunRecurrence(ctx, "tim", "hourly")
		pipelinetest.Must(t, err)
		later := w.schedule(p, ring.New("zoe", note{Word: "later"}, task.In(time.Hour)))
		w.await(p, dead.ID, task.Dead)
		w.await(p, follows.ID, task.Done)
		pipelinetest.Await(t, "the snooze", func() bool { return w.row(p, rests.ID).RunAt.After(rests.RunAt) })
		ticks, _, err := p.Tasks(ctx, "tim", "")
		pipelinetest.Must(t, err)
		_, err = p.Cancel(ctx, ticks[len(ticks)-1].ID) // its recurrence makes the next one
		pipelinetest.Must(t, err)
		_, err = p.Bulk(ctx, task.Operation{Verb: task.VerbShift, By: time.Hour, Filter: task.Filter{OwnerPrefix: "zoe"}})
		pipelinetest.Must(t, err)
		pipelinetest.Await(t, "the operation", func() bool { return w.row(p, later.ID).DueAt.Equal(later.DueAt.Add(time.Hour)) })
		_, err = p.Console().Retry(ctx, dead.ID, 0)
		pipelinetest.Must(t, err)
		w.await(p, dead.ID, task.Dead)
		pipelinetest.Must(t, stop())
		if n := w.number(p, "SELECT COUNT(*) FROM duetime_tasks AS t LEFT JOIN copies AS c ON c.id = t.id AND c.version = t.version "+
			"AND c.due_ms = t.due_at AND c.state = t.state WHERE c.id IS NULL"); n > 0 {
			t.Errorf("of %d tasks the table of copies has another version", n)
		}
		rows := w.number(p, "SELECT SUM(version) FROM duetime_tasks")
		pipelinetest.Await(t, "OnChange hears of each version", func() bool {
			seen.mu.Lock()
			defer seen.mu.Unlock()
			sum := 0
			for _, version := range seen.versions {
				sum += int(version)
			}
			return sum == rows
		})
	})
}

// A task whose end InChange refuses runs again by itself, and is charged in the end; its neighbours are done.
func TestInChangeThatRefusesOneTask(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		p := w.pipeline(embedded.Config{InChange: func(_ context.Context, _ *schedule.Tx, changes []schedule.Change) error {
			for _, c := range changes {
				if c.After.Owner == "full" && c.After.State == task.Done {
					return errors.New("the pet is full")
				}
			}
			return nil
		}})
		var tasks []task.Task
		for _, owner := range []string{"ann", "full", "zoe"} {
			tasks = append(tasks, w.schedule(p, ring.New(owner, note{Word: owner}, task.In(0))))
		}
		stop := w.work(p, ringing())
		refused := w.await(p, tasks[1].ID, task.Dead)
		if !strings.Contains(refused.LastError, "InChange: the pet is full") || refused.Attempt != refused.MaxAttempts {
			t.Errorf("the refused task died after %d attempts of %q", refused.Attempt, refused.LastError)
		}
		w.await(p, tasks[0].ID, task.Done)
		w.await(p, tasks[2].ID, task.Done)
		pipelinetest.Must(t, stop())
		w.once(p, tasks[0], tasks[2])
		if n := w.number(p, "SELECT COUNT(*) FROM effects WHERE word = 'full'"); n > 0 {
			t.Errorf("%d effects of the refused task stand", n)
		}
	})
}
