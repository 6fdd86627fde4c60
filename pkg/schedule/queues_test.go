package schedule_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/kinds"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// A queue that an operator adds takes tasks at once, by every way in, and none before.
func TestAddedQueueTakesTasksAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	c, err := schedule.New(schedule.Config{Kinds: kinds.New([]string{"default"}), Logger: slog.New(slog.DiscardHandler)}, w.store, w, w)
	pipelinetest.Must(t, err)
	t.Cleanup(func() { c.Close(context.Background()) })
	push := task.NewKind[int]("push.send", task.Queue("pushes"))
	end := task.NewKind[struct{}]("push.end", task.Queue("pushes"))
	in := func(opts ...task.Option) task.Spec { return push.New("ann", 1, task.In(time.Hour), opts...) }
	in1 := func(do func(tx *schedule.Tx) error) error { return c.InTx(ctx, do) }
	ways := map[string]func() error{
		"alone":      func() error { _, err := c.Schedule(ctx, in()); return err },
		"with a key": func() error { _, err := c.Schedule(ctx, in(task.Key("k"))); return err },
		"many": func() error {
			return in1(func(tx *schedule.Tx) error {
				_, err := tx.ScheduleMany(ctx, []task.Spec{meal.New("ann", 1, task.In(time.Hour)), in()})
				return err
			})
		},
		"join": func() error { _, err := c.Join(begin(t, foreign(t, w))).Schedule(ctx, in()); return err },
		"recurrence": func() error {
			return in1(func(tx *schedule.Tx) error {
				_, err := tx.Recur(ctx, "pushes", recur.Every(time.Hour), push.Recurring("ann", 1), recur.Policy{})
				return err
			})
		},
		"follower": func() error {
			return in1(func(tx *schedule.Tx) error {
				_, err := tx.Group(ctx, "pushes", []task.Spec{meal.New("ann", 1, task.In(time.Hour))}, task.Then(end.New("ann", struct{}{}, task.In(0))))
				return err
			})
		},
		"requeue": func() error {
			return in1(func(tx *schedule.Tx) error {
				_, err := tx.Bulk(ctx, task.Operation{Verb: task.VerbRequeue, To: "pushes", Filter: task.Filter{Kind: "meal.done"}})
				return err
			})
		},
	}
	for way, do := range ways {
		var field *task.FieldError
		if err := do(); !errors.As(err, &field) || field.Field != "queue" {
			t.Errorf("%s, before: got %v, want a refusal of the queue", way, err)
		}
	}
	if n := w.store.Number("SELECT COUNT(*) FROM duetime_tasks"); n != 0 {
		t.Errorf("%d tasks of a queue that is not there", n)
	}
	_, err = w.store.AddQueue(ctx, w.store.DB(), "pushes", time.Now())
	pipelinetest.Must(t, err)
	for way, do := range ways {
		if err := do(); err != nil {
			t.Errorf("%s: %v", way, err)
		}
	}
}
