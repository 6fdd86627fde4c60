package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// What handlers schedule is seen once and may be changed or refused, before the rules for keys hold.
func TestBeforeScheduleSeesFollowUps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	errNo := errors.New("no more of these")
	var seen []string
	cfg := engine.Config{BeforeSchedule: func(_ context.Context, spec task.Spec) (task.Spec, error) {
		seen = append(seen, spec.Owner()+spec.Subject())
		switch spec.Owner() {
		case "own":
			return spec.With(task.Key("mine")), nil
		case "refused":
			return spec, errNo
		}
		return spec.With(task.Subject(spec.Subject() + "!")), nil
	}}
	in := func(owner, subject string) task.Spec {
		return meal.New(owner, payload{}, task.In(time.Hour), task.Subject(subject))
	}
	var refused, own, recurrence error
	mux := worker.NewMux()
	worker.Handle(mux, meal, func(ctx context.Context, tx *worker.Tx, tk worker.Task[payload]) error {
		_, refused = tx.ScheduleMany(ctx, []task.Spec{in("dan", "d"), in("refused", "")})
		_, own = tx.Schedule(ctx, in("own", ""))
		_, recurrence = tx.Recur(ctx, "weekly", weekly, meal.Recurring("refused", payload{}), recur.Policy{})
		if _, err := tx.Recur(ctx, "weekly", weekly, meal.Recurring("cyd", payload{}), recur.Policy{}); err != nil {
			return err
		}
		if _, err := tx.Schedule(ctx, in("ann", "a")); err != nil {
			return err
		}
		if _, err := tx.Schedule(ctx, in("bob", "b").With(task.Once("k"))); err != nil {
			return err
		}
		return effect(ctx, tx, tk)
	})
	made := w.schedule(meal.New("own", payload{}, task.In(0), task.Key("mine")))[0] // not by a handler
	w.pass(w.worker(mux, cfg), made)
	want(t, "state", w.store.Row(made.ID).State, task.Done)
	want(t, "refusal", errors.Is(refused, errNo), true)
	want(t, "the key of the task that runs", errors.Is(own, worker.ErrOwnKey), true)
	want(t, "refusal of a recurrence", errors.Is(recurrence, errNo), true)
	want(t, "seen", len(seen), 7)
	want(t, "a tick's task as changed", w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE subject = '!'"), 1)
	want(t, "follow-ups as changed", w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE subject IN ('a!', 'b!')"), 2)
	want(t, "tasks", w.store.Number("SELECT COUNT(*) FROM duetime_tasks"), 4)
}
