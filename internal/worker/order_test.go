package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/transition"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

var march = task.NewKind[payload]("march", task.InOrder())

// marches schedules tasks of different owners and one order key, each a millisecond earlier than the one before it, so that their ids tell
// the opposite order. The first of the answer is due first.
func (w *world) marches(key string, n int) []task.Task {
	w.t.Helper()
	specs := make([]task.Spec, n)
	for i := range specs {
		specs[i] = march.New(fmt.Sprintf("player%d", i), payload{fmt.Sprint(n - i)}, task.In(0), task.OrderKey(key))
	}
	made := w.schedule(specs...)
	last := made[0].DueAt.Add(-time.Minute)
	for i, row := range made {
		w.due1(row.ID, last.Add(-time.Duration(i)*time.Millisecond))
		made[i] = w.store.Row(row.ID)
	}
	slices.Reverse(made)
	return made
}

// due1 gives a task another due time, as if it had been scheduled so.
func (w *world) due1(id task.ID, at time.Time) {
	w.t.Helper()
	w.store.Exec("UPDATE duetime_tasks SET due_at = ?, run_at = ? WHERE id = ?", at.UnixMilli(), at.UnixMilli(), id[:])
	w.store.Exec("UPDATE duetime_orders SET due_at = ? WHERE task_id = ?", at.UnixMilli(), id[:])
}

// ran remembers in which order the handlers ran.
type ran struct{ words []string }

func (r *ran) handle(ctx context.Context, tx *worker.Tx, m worker.Task[payload]) error {
	r.words = append(r.words, m.Payload.Word)
	return effect(ctx, tx, m)
}

func (w *world) ordered(ids ...task.ID) int {
	w.t.Helper()
	n := 0
	for _, id := range ids {
		n += w.store.Number("SELECT COUNT(*) FROM duetime_orders WHERE task_id = ?", id[:])
	}
	return n
}

// A batch runs its tasks by their due times, whatever their ids and owners, with an order key and without one.
func TestBatchRunsByDueTime(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		var r ran
		plain := task.NewKind[payload]("plain")
		mux := worker.NewMux()
		worker.Handle(mux, march, r.handle)
		worker.Handle(mux, plain, r.handle)
		made := w.marches("city", 5)
		for i, row := range w.schedule(plain.New("ann", payload{"b"}, task.In(0)), plain.New("bob", payload{"a"}, task.In(0))) {
			w.due1(row.ID, made[0].DueAt.Add(-time.Duration(i+1)*time.Second))
			made = append(made, w.store.Row(row.ID))
		}
		w.pass(w.worker(mux, engine.Config{}), made...)
		if want := []string{"a", "b", "1", "2", "3", "4", "5"}; !slices.Equal(r.words, want) {
			t.Errorf("ran %v, want %v", r.words, want)
		}
		want(t, "rows of tasks that have ended", w.ordered(ids(made)...), 0)
	})
}

func ids(rows []task.Task) (all []task.ID) {
	for _, row := range rows {
		all = append(all, row.ID)
	}
	return all
}

// A task that fails holds up the later ones of its key, and no others, until it is done.
func TestFailureHoldsUpItsKey(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		var r ran
		healthy := false
		mux := worker.NewMux()
		worker.Handle(mux, march, func(ctx context.Context, tx *worker.Tx, m worker.Task[payload]) error {
			if m.Payload.Word == "2" && !healthy {
				return errSick
			}
			return r.handle(ctx, tx, m)
		})
		made := w.marches("city", 4)
		made = append(made, w.marches("other", 1)...)
		wk := w.worker(mux, engine.Config{})
		got := w.pass(wk, made...)
		if want := []string{"1", "1"}; !slices.Equal(tail(r.words, 2), want) {
			t.Errorf("ran %v, want the first of both keys last", r.words)
		}
		for i, result := range []string{"done", "failed", "behind", "behind", "done"} {
			want(t, fmt.Sprint("result of ", i), got[made[i].ID].Result, result)
		}
		want(t, "effects behind", w.effects(made[2].ID)+w.effects(made[3].ID), 0)
		healthy, r.words = true, nil
		for range 3 { // the retry comes first, then what waits for it
			w.store.Exec("UPDATE duetime_tasks SET run_at = due_at, version = version + 1 WHERE state = 0")
			w.pass(wk, w.store.Row(made[1].ID), w.store.Row(made[2].ID), w.store.Row(made[3].ID))
		}
		if want := []string{"2", "3", "4"}; !slices.Equal(r.words, want) {
			t.Errorf("then ran %v, want %v", r.words, want)
		}
	})
}

// A task that fails where a batch runs again because of another one, between savepoints, holds up its key too.
func TestFailureInARepeatedBatchHoldsUpItsKey(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		mux := worker.NewMux()
		worker.Handle(mux, march, func(ctx context.Context, tx *worker.Tx, m worker.Task[payload]) error {
			if m.Payload.Word == "1" {
				return errSick
			}
			return effect(ctx, tx, m)
		})
		made := append(w.marches("city", 3), w.marches("other", 1)...)
		w.due1(made[3].ID, made[0].DueAt.Add(-time.Second)) // it fails first
		got := w.pass(w.worker(mux, engine.Config{}), made...)
		for i, result := range []string{"failed", "behind", "behind", "failed"} {
			want(t, fmt.Sprint("result of ", i), got[made[i].ID].Result, result)
		}
		want(t, "effects behind", w.effects(made[1].ID)+w.effects(made[2].ID), 0)
	})
}

func tail(words []string, n int) []string { return words[max(0, len(words)-n):] }

// What a worker runs at this moment is pending until its COMMIT, though its row is locked.
func TestWaitsForWhatAnotherWorkerRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var r ran
	mux := worker.NewMux()
	worker.Handle(mux, march, r.handle)
	made := w.marches("city", 2)
	wk := w.worker(mux, engine.Config{})
	w.store.InTx(func(ctx context.Context, tx *sqlx.Tx) error {
		if _, err := w.store.Lock(ctx, tx, ids(made[:1])); err != nil {
			return err
		}
		if err := worldtest.Finish(ctx, w.store.Store, tx, made[:1], made[0].DueAt); err != nil {
			return err
		}
		want(t, "beside the first one", w.pass(wk, made[1])[made[1].ID].Result, "behind")
		want(t, "effects before its COMMIT", w.effects(made[1].ID), 0)
		return nil
	})
	want(t, "after its COMMIT", w.pass(wk, made[1])[made[1].ID].Result, "done")
}

// A task that waits for a head with a later try gets the same try, and says for whom it waits. The head's end makes it due at once, in a
// worker and in a service, whoever ends it; so does a move of the head.
func TestWaitingTaskNamesItsHead(t *testing.T) {
	t.Parallel()
	rival := task.NewKind[payload]("rival")
	run := func(result string) func(w *world, wk *engine.Worker, c *schedule.Client, head task.ID) {
		return func(w *world, wk *engine.Worker, _ *schedule.Client, head task.ID) {
			w.store.Exec("UPDATE duetime_tasks SET run_at = due_at WHERE id = ?", head[:])
			want(w.t, "head", w.pass(wk, w.store.Row(head))[head].Result, result)
		}
	}
	for name, c := range map[string]struct {
		then error // of the head's handler
		end  func(w *world, wk *engine.Worker, c *schedule.Client, head task.ID)
	}{
		"run":       {end: run("done")},
		"discarded": {then: worker.Discard(errSick), end: run("dead")},
		"cancelled": {end: func(w *world, _ *engine.Worker, c *schedule.Client, head task.ID) {
			_, err := c.Cancel(w.t.Context(), head)
			pipelinetest.Must(w.t, err)
		}},
		"moved": {end: func(w *world, _ *engine.Worker, c *schedule.Client, head task.ID) {
			_, err := c.Reschedule(w.t.Context(), head, task.In(time.Hour))
			pipelinetest.Must(w.t, err)
		}},
		"cancelled by a handler": {end: func(w *world, wk *engine.Worker, _ *schedule.Client, head task.ID) {
			made := w.schedule(rival.New("eve", payload{head.String()}, task.In(0)))[0]
			want(w.t, "who cancels it", w.pass(wk, made)[made.ID].Result, "done")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databases(t, func(t *testing.T, w *world) {
				answer := worker.Snooze(30 * time.Second)
				mux := worker.NewMux()
				worker.Handle(mux, march, func(ctx context.Context, tx *worker.Tx, m worker.Task[payload]) error {
					if m.Payload.Word == "1" && answer != nil {
						return answer
					}
					return effect(ctx, tx, m)
				})
				worker.Handle(mux, rival, func(ctx context.Context, tx *worker.Tx, m worker.Task[payload]) error {
					head, err := task.ParseID(m.Payload.Word)
					if err == nil {
						_, err = tx.Cancel(ctx, head)
					}
					return err
				})
				made := w.marches("city", 2)
				wk := w.worker(mux, engine.Config{})
				w.pass(wk, made[0])
				head := w.store.Row(made[0].ID)
				want(t, "result", w.pass(wk, made[1])[made[1].ID].Result, "behind")
				row := w.store.Row(made[1].ID)
				if !row.RunAt.Equal(head.RunAt) || !row.DueAt.Equal(made[1].DueAt) || row.Attempt != 0 || !strings.Contains(row.LastError, head.ID.String()) {
					t.Errorf("waits as %+v, want the next try of %+v", row, head)
				}
				client, err := schedule.New(schedule.Config{}, w.store, w.index, worldtest.Nowhere{})
				pipelinetest.Must(t, err)
				t.Cleanup(func() { client.Close(context.Background()) })
				answer = c.then
				c.end(w, wk, client, head.ID)
				row = w.store.Row(row.ID)
				now, err := w.store.Now(t.Context(), nil)
				pipelinetest.Must(t, err)
				if row.RunAt.After(now) {
					t.Errorf("its next try is %v away", row.RunAt.Sub(now))
				}
				want(t, "then", w.pass(wk, row)[row.ID].Result, "done")
				if done := w.store.Row(row.ID); done.LastError != "" || !done.DueAt.Equal(made[1].DueAt) {
					t.Errorf("done as %+v", done)
				}
			})
		})
	}
}

// A head that is due and never ends, such as one of a paused queue, has the task put off too, with the reason, after it was held for a while.
func TestWaitingForAPausedQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	slow := task.NewKind[payload]("slow", task.InOrder(), task.Queue("paused"))
	mux := worker.NewMux()
	worker.Handle(mux, march, effect)
	_, err := w.store.Pause(t.Context(), w.store.DB(), "paused", time.Now(), time.Time{})
	pipelinetest.Must(t, err)
	head := w.schedule(slow.New("ann", payload{"1"}, task.In(0), task.OrderKey("city")))[0]
	behind := w.schedule(march.New("bob", payload{"2"}, task.In(0), task.OrderKey("city")))[0]
	stop := w.run(w.worker(mux, engine.Config{}))
	w.publish(behind)
	pipelinetest.Await(t, "the task says for whom it waits", func() bool {
		row := w.store.Row(behind.ID)
		return transition.WaitsBehind(row) && strings.Contains(row.LastError, head.ID.String()) && strings.Contains(row.LastError, "paused")
	})
	pipelinetest.Must(t, stop())
	want(t, "effects", w.effects(behind.ID), 0)
}

// A dead task frees its key. An operator's retry makes it later than what ran meanwhile, and waits in order again.
func TestDeadFreesItsKey(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		mux := worker.NewMux()
		worker.Handle(mux, march, func(ctx context.Context, tx *worker.Tx, m worker.Task[payload]) error {
			if m.Payload.Word == "1" {
				return worker.Discard(errSick)
			}
			return effect(ctx, tx, m)
		})
		made := w.marches("city", 3)
		wk := w.worker(mux, engine.Config{})
		got := w.pass(wk, made[:2]...)
		want(t, "first", got[made[0].ID].Result, "dead")
		if got[made[1].ID].Result != "done" {
			got = w.pass(wk, made[1])
		}
		want(t, "second", got[made[1].ID].Result, "done")
		want(t, "rows of duetime_orders", w.ordered(ids(made)...), 1)
		dead := w.store.Row(made[0].ID)
		retried, err := transition.Retry(dead, dead.UpdatedAt)
		pipelinetest.Must(t, err)
		w.store.InTx(func(ctx context.Context, tx *sqlx.Tx) error { return worldtest.Save(ctx, w.store.Store, tx, retried) })
		want(t, "rows of duetime_orders", w.ordered(ids(made)...), 2)
		want(t, "the third one comes first", w.pass(wk, made[2])[made[2].ID].Result, "done")
	})
}

// One call of a batch handler has the first task of each order key.
func TestBatchCallHasOneOfEachKey(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		var calls [][]string
		mux := worker.NewMux()
		worker.HandleBatch(mux, march, func(_ context.Context, _ *worker.Tx, ms []worker.Task[payload]) error {
			var words []string
			for _, m := range ms {
				words = append(words, m.Payload.Word)
			}
			calls = append(calls, words)
			return nil
		})
		made := append(w.marches("city", 3), w.marches("other", 2)...)
		w.pass(w.worker(mux, engine.Config{}), made...)
		got := fmt.Sprint(calls)
		if got != "[[1 1] [2 2] [3]]" {
			t.Errorf("calls %s", got)
		}
	})
}

// A reader runs what is due of an order key before the owner's task, whoever owns it, and leaves the owner's task to a worker if that fails.
func TestReaderKeepsTheOrder(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		var r ran
		sick := true
		mux := worker.NewMux()
		worker.Handle(mux, march, func(ctx context.Context, tx *worker.Tx, m worker.Task[payload]) error {
			if m.Payload.Word == "2" && sick {
				return errSick
			}
			return r.handle(ctx, tx, m)
		})
		c := w.reads(mux, engine.Config{})
		made := w.marches("city", 3) // the last one is player0's
		if got := w.fresh(c, made[2].Owner); got.Done != 1 || len(got.Failed) != 1 || got.Left != 1 || got.Whole() {
			t.Errorf("settled %+v, want the first one done, the second failed, and the third left", got)
		}
		err := c.InTx(t.Context(), func(tx *schedule.Tx) error {
			_, err := tx.RunNow(t.Context(), made[2].ID)
			return err
		})
		if !errors.Is(err, schedule.ErrBehind) || !strings.Contains(err.Error(), made[1].ID.String()) {
			t.Errorf("run now: %v, want ErrBehind that names the second", err)
		}
		sick = false
		pipelinetest.Must(t, c.InTx(t.Context(), func(tx *schedule.Tx) error {
			got, err := tx.SettleOrder(t.Context(), "city")
			if got.Done != 2 || !got.Whole() {
				t.Errorf("settled %+v, want two", got)
			}
			return err
		}))
		if want := []string{"1", "2", "3"}; !slices.Equal(r.words, want) {
			t.Errorf("ran %v, want %v", r.words, want)
		}
		_, err = schedule.NewTx(nil, w.store).SettleOrder(t.Context(), "")
		if field := new(task.FieldError); !errors.As(err, &field) || field.Field != "order_key" {
			t.Errorf("an empty key: %v", err)
		}
	})
}

// A task that was put off behind another one takes effect in the transaction of the reader who settles that one.
func TestReaderWakesWhatWaitsBehind(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		rests := true
		mux := worker.NewMux()
		worker.Handle(mux, march, func(ctx context.Context, tx *worker.Tx, m worker.Task[payload]) error {
			if m.Payload.Word == "1" && rests {
				return worker.Snooze(30 * time.Second)
			}
			return effect(ctx, tx, m)
		})
		made := w.marches("city", 2)
		wk := w.worker(mux, engine.Config{})
		w.pass(wk, made[0])
		want(t, "the second", w.pass(wk, made[1])[made[1].ID].Result, "behind")
		rests = false
		w.store.Exec("UPDATE duetime_tasks SET run_at = due_at WHERE id = ?", made[0].ID[:])
		c := w.reads(mux, engine.Config{})
		pipelinetest.Must(t, c.InTx(t.Context(), func(tx *schedule.Tx) error {
			got, err := tx.SettleOrder(t.Context(), "city")
			if got.Done != 2 || !got.Whole() {
				t.Errorf("settled %+v, want both", got)
			}
			return err
		}))
	})
}

// Without a key of its own the owner and the subject are the key: what follows each other about one pet.
func TestOrderBySubject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, march, effect)
	of := func(subject string) task.Spec {
		return march.New("ann", payload{}, task.In(0), task.Subject(subject))
	}
	made := w.schedule(of("cat"), of("cat"), of("dog"))
	wk := w.worker(mux, engine.Config{})
	got := w.pass(wk, made[1], made[2])
	want(t, "the second of the cat", got[made[1].ID].Result, "behind")
	want(t, "the dog's", got[made[2].ID].Result, "done")
}

// A row that a program of another language ended, and whose row of duetime_orders it left there, stops no key; the purge removes it.
func TestOrderOfAForeignEnd(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		mux := worker.NewMux()
		worker.Handle(mux, march, effect)
		made := w.marches("city", 2)
		w.store.Exec("UPDATE duetime_tasks SET state = 2, version = version + 1, updated_at = due_at, finished_at = due_at WHERE id = ?", made[0].ID[:])
		want(t, "behind it", w.pass(w.worker(mux, engine.Config{}), made[1])[made[1].ID].Result, "done")
		want(t, "rows of duetime_orders", w.ordered(ids(made)...), 1)
		_, _, _, err := w.store.Purge(t.Context(), protocol.Purgeable{}, made[0].DueAt.Add(time.Second), 100)
		pipelinetest.Must(t, err)
		want(t, "rows after the purge", w.ordered(ids(made)...), 0)
	})
}

// The first task of a key can be run at once while it waits for its retry: it comes first by its due time, which it keeps.
func TestRunNowOfAHeadThatFailed(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, w *world) {
		sick := true
		mux := worker.NewMux()
		worker.Handle(mux, march, func(ctx context.Context, tx *worker.Tx, m worker.Task[payload]) error {
			if sick {
				return errSick
			}
			return effect(ctx, tx, m)
		})
		made := w.marches("city", 2)
		want(t, "the first", w.pass(w.worker(mux, engine.Config{}), made[0])[made[0].ID].Result, "failed")
		w.store.Exec("UPDATE duetime_tasks SET run_at = run_at + 3600000 WHERE id = ?", made[0].ID[:])
		sick = false
		c := w.reads(mux, engine.Config{})
		run := func(id task.ID) (ran task.Task, err error) {
			err = c.InTx(t.Context(), func(tx *schedule.Tx) error {
				ran, err = tx.RunNow(t.Context(), id)
				return err
			})
			return ran, err
		}
		if _, err := run(made[1].ID); !errors.Is(err, schedule.ErrBehind) {
			t.Errorf("the second one first: %v, want %v", err, schedule.ErrBehind)
		}
		for _, one := range made {
			if ran, err := run(one.ID); err != nil || ran.State != task.Done || !ran.DueAt.Equal(one.DueAt) {
				t.Errorf("ran %+v, %v; want it done, and due at %v as before", ran, err, one.DueAt)
			}
		}
		want(t, "effects", w.effects(made[0].ID)+w.effects(made[1].ID), 2)
	})
}
