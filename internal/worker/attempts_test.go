package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// at once is a backoff that a test need not wait for.
var atOnce = task.Retry(task.Backoff{Min: time.Millisecond, Max: time.Millisecond})

// ready waits until the row can be run, and returns it.
func (w *world) ready(id task.ID) task.Task {
	w.t.Helper()
	pipelinetest.Await(w.t, "due", func() bool {
		now, err := w.store.Now(w.t.Context(), nil)
		pipelinetest.Must(w.t, err)
		return !w.store.Row(id).RunAt.After(now)
	})
	return w.store.Row(id)
}

func TestTaskThatMovesItselfHasItsAttemptsBack(t *testing.T) {
	t.Parallel()
	poll := task.NewKind[payload]("poll", task.MaxAttempts(3), atOnce)
	for name, move := range map[string]func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error{
		"reschedule": func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
			_, err := tx.Reschedule(ctx, tk.ID, task.In(0))
			return err
		},
		"shift": func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
			_, err := tx.Shift(ctx, tk.ID, time.Millisecond)
			return err
		},
		"all of the owner": func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
			_, err := tx.ShiftOwner(ctx, tk.Owner, "", time.Millisecond)
			return err
		},
		"its own key": func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
			_, err := tx.Schedule(ctx, poll.New(tk.Owner, tk.Payload, task.In(0), task.KeyMove("own")))
			return err
		},
		"new data under its own key": func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
			_, err := tx.Schedule(ctx, poll.New(tk.Owner, payload{Word: "new"}, task.In(0), task.KeyReplace("own")))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			calls := 0
			mux := worker.NewMux()
			worker.Handle(mux, poll, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
				if calls++; calls%2 == 1 {
					return errSick
				}
				return errors.Join(effect(ctx, tx, tk), move(ctx, tx, tk))
			})
			wk := w.worker(mux, engine.Config{})
			made := w.schedule(poll.New("owner", payload{}, task.In(0), task.Key("own")))[0]
			for range 12 { // six periods of a failure and a success
				w.pass(wk, w.ready(made.ID))
			}
			row := w.store.Row(made.ID)
			want(t, "state", row.State, task.Pending)
			want(t, "effects", w.effects(made.ID), 6)
			want(t, "attempt", row.Attempt, 0)
		})
	}
}

func TestOnlySuccessGivesAttemptsBack(t *testing.T) {
	t.Parallel()
	kind := task.NewKind[payload]("meal", task.MaxAttempts(5), atOnce)
	w := newWorld(t)
	mate := w.schedule(kind.New("mate", payload{}, task.In(time.Hour)))[0]
	w.store.Exec("UPDATE duetime_tasks SET attempt = 2 WHERE id = ?", mate.ID[:])
	mux := worker.NewMux()
	worker.Handle(mux, kind, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		switch tk.Payload.Word {
		case "0": // moves itself, and fails
			_, err := tx.Reschedule(ctx, tk.ID, task.In(time.Hour))
			return errors.Join(err, errSick)
		case "1": // moves itself, and rests
			_, err := tx.Reschedule(ctx, tk.ID, task.In(time.Hour))
			pipelinetest.Must(t, err)
			return worker.Snooze(time.Minute)
		}
		_, err := tx.Shift(ctx, mate.ID, time.Minute) // moves another
		return err
	})
	tasks := w.due(kind, 3)
	w.store.Exec("UPDATE duetime_tasks SET attempt = 2 WHERE kind = 'meal'")
	w.pass(w.worker(mux, engine.Config{}), tasks...)
	want(t, "attempts of what failed", w.store.Row(tasks[0].ID).Attempt, 3)
	want(t, "attempts of what rests", w.store.Row(tasks[1].ID).Attempt, 2)
	want(t, "attempts of what another moved", w.store.Row(mate.ID).Attempt, 2)
}

func TestTaskThatMovesItselfOutlivesRestarts(t *testing.T) {
	t.Parallel()
	poll := task.NewKind[payload]("poll", task.MaxAttempts(2))
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, poll, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		_, err := tx.Reschedule(ctx, tk.ID, task.In(0))
		return errors.Join(err, effect(ctx, tx, tk))
	})
	made := w.due(poll, 1)[0]
	for i := range 4 {
		w.publish(w.store.Row(made.ID)) // came due while no worker was there
		stop := w.run(w.worker(mux, engine.Config{}))
		pipelinetest.Await(t, "run", func() bool { return w.effects(made.ID) == i+1 })
		pipelinetest.Must(t, stop())
		want(t, "state", w.store.Row(made.ID).State, task.Pending)
	}
}

func TestPuttingOffARestingTaskNeverBringsItNearer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(context.Context, *worker.Tx, worker.Task[payload]) error { return worker.Snooze(6 * time.Hour) })
	wk := w.worker(mux, engine.Config{})
	for name, shift := range map[string]func(ctx context.Context, tx *schedule.Tx, t task.Task, d time.Duration) error{
		"one": func(ctx context.Context, tx *schedule.Tx, t task.Task, d time.Duration) error {
			_, err := tx.Shift(ctx, t.ID, d)
			return err
		},
		"many": func(ctx context.Context, tx *schedule.Tx, t task.Task, d time.Duration) error {
			_, err := tx.ShiftMany(ctx, []task.ID{t.ID}, d)
			return err
		},
		"owner": func(ctx context.Context, tx *schedule.Tx, t task.Task, d time.Duration) error {
			_, err := tx.ShiftOwner(ctx, t.Owner, "", d)
			return err
		},
	} {
		made := w.schedule(meal.New(name, payload{}, task.In(0)), meal.New(name, payload{}, task.In(0)))
		ahead := w.schedule(meal.New(name, payload{}, task.In(time.Hour)))[0] // waits for its time; is shifted in the same statement
		w.pass(wk, made...)
		w.store.Exec("UPDATE duetime_tasks SET due_at = due_at - 1800000 WHERE id = ?", made[1].ID[:])
		for _, d := range []time.Duration{time.Hour, 0, time.Millisecond} {
			for _, id := range []task.ID{made[0].ID, made[1].ID, ahead.ID} {
				before := w.store.Row(id)
				w.inTx(func(ctx context.Context, tx *schedule.Tx) error { return shift(ctx, tx, before, d) })
				after := w.store.Row(id)
				if after.RunAt.Before(before.RunAt) || after.DueAt.Before(before.DueAt) || after.RunAt.Before(after.DueAt) {
					t.Errorf("%s, shifted by %v: next try moved by %v, due time by %v", name, d, after.RunAt.Sub(before.RunAt), after.DueAt.Sub(before.DueAt))
				}
			}
		}
	}
}

func TestWhatIsNoTryLeavesTheCatchUpWindow(t *testing.T) {
	t.Parallel()
	offer := task.NewKind[payload]("offer", task.CatchUpWindow(time.Minute))
	w := newWorld(t)
	old, fresh := worker.NewMux(), worker.NewMux()
	worker.Handle(old, meal, effect)
	worker.Handle(fresh, offer, effect)
	unknown := w.due(offer, 1)[0]
	want(t, "worker without the kind", w.pass(w.worker(old, engine.Config{}), unknown)[unknown.ID].Result, "unknown_kind")

	// A drain gives back what was charged beforehand.
	slow, begun := worker.NewMux(), make(chan struct{}, 1)
	worker.Handle(slow, offer, func(ctx context.Context, _ *worker.Tx, _ worker.Task[payload]) error {
		begun <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})
	drained := w.due(offer, 1)[0]
	w.publish(drained)
	stop := w.run(w.worker(slow, engine.Config{Drain: time.Millisecond}))
	<-begun
	want(t, "charged before it ran", w.store.Row(drained.ID).Attempt, 1)
	pipelinetest.Must(t, stop())
	want(t, "given back", w.store.Row(drained.ID).Attempt, 0)

	w.store.Exec("UPDATE duetime_tasks SET due_at = due_at - 7200000, run_at = run_at - 7200000")
	got := w.pass(w.worker(fresh, engine.Config{}), w.store.Row(unknown.ID), w.store.Row(drained.ID))
	want(t, "result of what nobody knew", got[unknown.ID].Result, "skipped")
	want(t, "result of what was given back", got[drained.ID].Result, "skipped")
}

func TestPayloadOfAnotherVersionIsAFailedAttempt(t *testing.T) {
	t.Parallel()
	kind := task.NewKind[payload]("meal", task.MaxAttempts(2), atOnce)
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, kind, effect)
	wk := w.worker(mux, engine.Config{})
	tasks := w.due(kind, 3)
	for _, odd := range tasks[:2] {
		w.store.Exec(`UPDATE duetime_tasks SET payload = '{"word":{"of":"another version"}}' WHERE id = ?`, odd.ID[:])
	}
	got := w.pass(wk, tasks...)
	for i, result := range []string{"failed", "failed", "done"} {
		want(t, "result", got[tasks[i].ID].Result, result)
	}
	want(t, "attempt", w.store.Row(tasks[0].ID).Attempt, 1)
	w.store.Exec(`UPDATE duetime_tasks SET payload = '{"word":"ours"}' WHERE id = ?`, tasks[0].ID[:]) // or a worker that knows it
	got = w.pass(wk, w.ready(tasks[0].ID), w.ready(tasks[1].ID))
	want(t, "result of a worker that knows it", got[tasks[0].ID].Result, "done")
	want(t, "result of the last attempt", got[tasks[1].ID].Result, "dead")
	if dead := w.store.Row(tasks[1].ID); dead.Attempt != 2 || !strings.Contains(dead.LastError, "decode payload") {
		t.Errorf("dead after %d attempts: %q", dead.Attempt, dead.LastError)
	}
}

func TestFollowUpUnderItsOwnKeyIsRefused(t *testing.T) {
	t.Parallel()
	kind := task.NewKind[payload]("meal", task.MaxAttempts(2), atOnce)
	other := task.NewKind[payload]("other")
	decade := task.Window("k", task.MaxAhead)
	for name, c := range map[string]struct {
		first  task.Option
		follow func(own task.ID) task.Spec
		batch  bool
		want   error
	}{
		"key":                   {first: task.Key("k"), follow: func(task.ID) task.Spec { return kind.New("o", payload{}, task.In(time.Hour), task.Key("k")) }, want: worker.ErrOwnKey},
		"key in a batch":        {first: task.Key("k"), follow: func(task.ID) task.Spec { return kind.New("o", payload{}, task.In(time.Hour), task.Key("k")) }, batch: true, want: worker.ErrOwnKey},
		"once":                  {first: task.Once("k"), follow: func(task.ID) task.Spec { return kind.New("o", payload{}, task.In(time.Hour), task.Once("k")) }, want: worker.ErrOwnKey},
		"id":                    {first: task.Key("k"), follow: func(own task.ID) task.Spec { return kind.New("o", payload{}, task.In(time.Hour), task.WithID(own)) }, want: worker.ErrOwnKey},
		"window":                {first: decade, follow: func(task.ID) task.Spec { return kind.New("o", payload{}, task.In(time.Hour), decade) }, want: worker.ErrOwnKey},
		"another window":        {first: task.Key("k"), follow: func(task.ID) task.Spec { return kind.New("o", payload{}, task.In(time.Hour), decade) }},
		"replace":               {first: task.Key("k"), follow: func(task.ID) task.Spec { return kind.New("o", payload{}, task.In(time.Hour), task.KeyReplace("k")) }},
		"move":                  {first: task.Key("k"), follow: func(task.ID) task.Spec { return kind.New("o", payload{}, task.In(time.Hour), task.KeyMove("k")) }},
		"another key":           {first: task.Key("k"), follow: func(task.ID) task.Spec { return kind.New("o", payload{}, task.In(time.Hour), task.Key("l")) }},
		"the key of another":    {first: task.Key("k"), follow: func(task.ID) task.Spec { return kind.New("p", payload{}, task.In(time.Hour), task.Key("k")) }},
		"the key of its sister": {first: task.Key("k"), follow: func(task.ID) task.Spec { return other.New("o", payload{}, task.In(time.Hour), task.Key("k")) }},
		"once beside a key":     {first: task.Key("k"), follow: func(task.ID) task.Spec { return kind.New("o", payload{}, task.In(time.Hour), task.Once("k")) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			mux := worker.NewMux()
			var got error
			handle := func(ctx context.Context, tx *worker.Tx, own task.ID) error {
				_, got = tx.Schedule(ctx, c.follow(own))
				return nil // even when it passes over the error
			}
			if c.batch {
				worker.HandleBatch(mux, kind, func(ctx context.Context, tx *worker.Tx, ts []worker.Task[payload]) error {
					return handle(ctx, tx, ts[0].ID)
				})
			} else {
				worker.Handle(mux, kind, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
					return handle(ctx, tx, tk.ID)
				})
			}
			made := w.schedule(kind.New("o", payload{}, task.In(0), c.first))[0]
			w.pass(w.worker(mux, engine.Config{}), made)
			if !errors.Is(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			follows := w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 0")
			want(t, "tasks that follow", follows, map[bool]int{true: 0, false: 1}[c.want != nil])
		})
	}
}

func TestFollowUpUnderAKeyThatTheHandlerGaveUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		if _, err := tx.Cancel(ctx, tk.ID); err != nil {
			return err
		}
		_, err := tx.Schedule(ctx, meal.New(tk.Owner, tk.Payload, task.In(time.Hour), task.Key("k")))
		return err
	})
	made := w.schedule(meal.New("o", payload{}, task.In(0), task.Key("k")))[0]
	w.pass(w.worker(mux, engine.Config{}), made)
	want(t, "state", w.store.Row(made.ID).State, task.Cancelled)
	want(t, "tasks that follow", w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 0"), 1)
}
