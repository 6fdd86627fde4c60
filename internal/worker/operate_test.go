package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/streamtest"
	"github.com/duetime/duetime/internal/test/worldtest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// life returns the lines of a task's history as "actor event: detail".
func (w *world) life(id task.ID) []string {
	w.t.Helper()
	events, err := w.store.History(w.t.Context(), id, 100)
	pipelinetest.Must(w.t, err)
	var lines []string
	for _, e := range events {
		lines = append(lines, e.Actor+" "+e.Name+": "+e.Detail)
	}
	return lines
}

func TestHistoryTellsWhatWasNoPlainFiring(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	other := w.schedule(meal.New("z", payload{}, task.In(time.Hour)))[0]
	mate := w.schedule(meal.New("y", payload{}, task.In(time.Hour)))[0]
	worker.Handle(mux, task.NewKind[payload]("meal", task.Retry(task.Backoff{Min: time.Millisecond, Max: time.Millisecond})),
		func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
			switch tk.Payload.Word {
			case "1":
				return errSick
			case "2":
				return worker.Snooze(time.Minute)
			case "3":
				return worker.Discard(errSick)
			case "4":
				_, err := tx.Shift(ctx, other.ID, -10*time.Minute)
				return errors.Join(err, func() error { _, err := tx.Cancel(ctx, mate.ID); return err }())
			case "5": // what it moved is undone with it
				_, err := tx.Shift(ctx, other.ID, -time.Minute)
				return errors.Join(err, errSick)
			}
			return effect(ctx, tx, tk)
		})
	tasks := w.due(meal, 6)
	w.pass(w.worker(mux, engine.Config{}), tasks...)
	moved := w.store.Row(other.ID)
	for _, c := range []struct {
		name string
		id   task.ID
		want []string
	}{
		{"plain", tasks[0].ID, nil},
		{"failed", tasks[1].ID, []string{"worker failed: next try in 1ms, attempt 1 of 3: sick"}},
		{"snoozed", tasks[2].ID, []string{"worker snoozed: for 1m0s"}},
		{"discarded", tasks[3].ID, []string{"worker dead: attempt 1 of 3: sick"}},
		{"moved by a handler", other.ID, []string{"worker moved: by -10m0s to " + moved.DueAt.Format("2006-01-02T15:04:05.000Z07:00")}},
		{"cancelled by a handler", mate.ID, []string{"worker cancelled: "}},
	} {
		if d := cmp.Diff(c.want, w.life(c.id)); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}

func TestTooLateForTheCatchUpWindowIsSkipped(t *testing.T) {
	t.Parallel()
	push := task.NewKind[payload]("push", task.CatchUpWindow(time.Minute), task.MaxAttempts(3))
	forms := map[string]func(mux *worker.Mux, calls *atomic.Int64){
		"single": func(mux *worker.Mux, calls *atomic.Int64) {
			worker.Handle(mux, push, func(context.Context, *worker.Tx, worker.Task[payload]) error { calls.Add(1); return nil })
		},
		"batch": func(mux *worker.Mux, calls *atomic.Int64) {
			worker.HandleBatch(mux, push, func(_ context.Context, _ *worker.Tx, ts []worker.Task[payload]) error {
				calls.Add(int64(len(ts)))
				return nil
			})
		},
		"outside": func(mux *worker.Mux, calls *atomic.Int64) {
			worker.HandleOutside(mux, push, func(context.Context, worker.Task[payload]) error { calls.Add(1); return nil })
		},
	}
	for name, handle := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			mux := worker.NewMux()
			var calls atomic.Int64
			handle(mux, &calls)
			tasks := w.due(push, 4) // in time, too late, a retry, snoozed
			w.store.Exec("UPDATE duetime_tasks SET due_at = due_at - 3600000, run_at = run_at - 3600000 WHERE id = ?", tasks[1].ID[:])
			w.store.Exec("UPDATE duetime_tasks SET due_at = due_at - 61000, run_at = due_at, attempt = 1 WHERE id = ?", tasks[2].ID[:])
			w.store.Exec("UPDATE duetime_tasks SET due_at = due_at - 61000 WHERE id = ?", tasks[3].ID[:])
			got := w.pass(w.worker(mux, engine.Config{}), tasks...)
			want(t, "calls", calls.Load(), 3)
			for i, result := range []string{"done", "skipped", "done", "done"} {
				want(t, "result of "+tasks[i].Owner, got[tasks[i].ID].Result, result)
			}
			row := w.store.Row(tasks[1].ID)
			want(t, "state", row.State, task.Cancelled)
			want(t, "attempt", row.Attempt, 0)
			want(t, "says why: "+row.LastError, strings.HasPrefix(row.LastError, "skipped: 1h0m"), true)
			want(t, "counted", w.settled("push", "skipped"), 1)
			want(t, "dropped from the index", w.index.PutsOf(row.ID)[0].State, task.Cancelled)
			if d := cmp.Diff([]string{"worker skipped: " + row.LastError}, w.life(row.ID)); d != "" {
				t.Errorf("history (-want +got):\n%s", d)
			}
		})
	}
}

// lines is called with each line of a log.
type lines func(line string)

func (l lines) Write(line []byte) (int, error) {
	l(string(line))
	return len(line), nil
}

func TestPausedQueueWaitsAndGoesOn(t *testing.T) {
	t.Parallel()
	mail := task.NewKind[payload]("mail", task.Queue("mails"), task.MaxAttempts(3))
	w := newWorld(t)
	w.log = streamtest.New(stream.Config{Namespace: "test", Partitions: 3, Queues: []string{"default", "mails"}})
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	worker.Handle(mux, mail, effect)
	said := make(chan bool, 16) // of each queue that was paused or resumed
	logger := slog.New(slog.NewTextHandler(lines(func(line string) {
		if strings.Contains(line, "pause of a queue") {
			said <- strings.Contains(line, "paused=true")
		}
	}), nil))
	pause := func() {
		_, err := w.store.Pause(t.Context(), w.store.DB(), "mails", time.Now(), time.Time{})
		pipelinetest.Must(t, err)
	}
	resume := func() {
		_, err := w.store.Resume(t.Context(), w.store.DB(), "mails")
		pipelinetest.Must(t, err)
	}
	obeys := func(paused bool) (took time.Duration) {
		began := time.Now()
		select {
		case got := <-said:
			want(t, "paused", got, paused)
		case <-time.After(limit):
			t.Fatalf("paused is not %v within %v", paused, limit)
		}
		return time.Since(began)
	}
	pause()
	stop := w.run(w.worker(mux, engine.Config{Patience: impatient, Logger: logger}))
	obeys(true)
	w.publish(w.dueIn(mail, 3, time.Second)...) // after the join: what was due before may have been running then, and is charged
	w.publish(w.dueIn(meal, 3, time.Second)...)
	pipelinetest.Await(t, "the other queue works", func() bool { return w.settled("meal", "done") == 3 })
	until := time.Now().Add(impatient + 1500*time.Millisecond) // some looks, and beyond the moment's patience
	pipelinetest.Await(t, "time passes", func() bool { return time.Now().After(until) })
	want(t, "run though paused before the start", w.settled("mail", "done"), 0)

	resume()
	t.Logf("resumed after %v", obeys(false))
	pipelinetest.Await(t, "resumed", func() bool { return w.settled("mail", "done") == 3 })

	pause()
	took := obeys(true)
	for range 2 {
		if took > 2*time.Second { // a look, and a machine that stood still
			resume()
			obeys(false)
			pause()
			took = min(took, obeys(true))
		}
	}
	want(t, fmt.Sprintf("obeyed within two seconds, after %v", took), took <= 2*time.Second, true)
	w.publish(w.due(mail, 3)...)
	w.publish(w.due(meal, 3)...)
	pipelinetest.Await(t, "the other queue works", func() bool { return w.settled("meal", "done") == 6 })
	want(t, "run though paused", w.settled("mail", "done"), 3)
	resume()
	pipelinetest.Await(t, "resumed again", func() bool { return w.settled("mail", "done") == 6 })
	pipelinetest.Await(t, "all is committed", func() bool { return !w.explained(time.Now().Add(time.Hour)) })
	want(t, "stop", stop(), nil)
	want(t, "let go", w.metric("duetime_hints_let_go_total"), 0)
	want(t, "charged", w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE attempt > 0"), 0)
	want(t, "effects", w.store.Number("SELECT COUNT(*) FROM effects"), 12)
}

// The statements of a plain firing, the same as before there was a history: BEGIN, lock, effect, done, COMMIT.
func TestPlainFiringHasNoFurtherStatement(t *testing.T) {
	t.Parallel()
	w := onStore(t, worldtest.NewStore(t, "test", store.Options{MaxOpen: 1})) // whose session counts all
	mux := worker.NewMux()
	worker.HandleBatch(mux, meal, func(ctx context.Context, tx *worker.Tx, _ []worker.Task[payload]) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO effects (task_id, word) VALUES ('', '')")
		return err
	})
	wk := w.worker(mux, engine.Config{})
	w.pass(wk, w.due(meal, 1)...) // learns the layout
	tasks := w.due(meal, 50)
	questions := func() int {
		var n int
		var name string
		pipelinetest.Must(t, w.store.DB().QueryRowxContext(t.Context(), "SHOW SESSION STATUS LIKE 'Questions'").Scan(&name, &n))
		return n
	}
	before := questions()
	w.pass(wk, tasks...)
	const probe, look = 1, 1 // of the clock before the batch; of this count
	want(t, "statements", questions()-before-probe-look, 5)
	want(t, "done", w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 1"), 51)
	want(t, "lines of history", w.store.Number("SELECT COUNT(*) FROM duetime_history"), 0)
}

// The history can't be written; all else is.
func TestLostHistoryCostsNothingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		if tk.Payload.Word == "0" {
			return errSick
		}
		return effect(ctx, tx, tk)
	})
	w.store.Exec("DROP TABLE duetime_history")
	tasks := w.due(meal, 2)
	w.pass(w.worker(mux, engine.Config{}), tasks...)
	want(t, "attempts of the failed one", w.store.Row(tasks[0].ID).Attempt, 1)
	want(t, "state of the other", w.store.Row(tasks[1].ID).State, task.Done)
}

// A deadlock at the history is one of the transaction.
func TestDeadlockAtTheHistoryRunsTheBatchAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		return errors.Join(effect(ctx, tx, tk), errSick)
	})
	made := w.due(meal, 1)[0]
	s := &victim{Store: w.store}
	got := w.pass(w.workerOn(s, mux, engine.Config{}), made)
	want(t, "result", got[made.ID].Result, "failed")
	want(t, "attempts", w.store.Row(made.ID).Attempt, 1)
	want(t, "lines", len(w.life(made.ID)), 1)
	want(t, "writes", s.writes.Load(), 2)
}

// victim is a store whose first write of the history loses the transaction.
type victim struct {
	engine.Store
	writes atomic.Int64
}

func (v *victim) Record(ctx context.Context, q sqlx.ExtContext, events []protocol.Event) error {
	if v.writes.Add(1) == 1 {
		_, err := q.ExecContext(ctx, "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213")
		return err
	}
	return v.Store.Record(ctx, q, events)
}
