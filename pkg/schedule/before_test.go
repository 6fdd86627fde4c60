package schedule_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/kinds"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

var errClosed = errors.New("the shop is closed")

// counted marks each spec once more, so that one that was seen twice shows, and refuses those of the owner "closed".
func counted(calls *atomic.Int64) schedule.SpecFunc {
	return func(_ context.Context, spec task.Spec) (task.Spec, error) {
		calls.Add(1)
		if spec.Owner() == "closed" {
			return spec, errClosed
		}
		return spec.With(task.Subject(spec.Subject() + "+")), nil
	}
}

// Each way to schedule shows each spec once, and schedules what comes back.
func TestBeforeScheduleSeesEachWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	var calls atomic.Int64
	c, err := schedule.New(schedule.Config{BeforeSchedule: counted(&calls), Logger: slog.New(slog.DiscardHandler)}, w.store, w, w)
	pipelinetest.Must(t, err)
	t.Cleanup(func() { c.Close(context.Background()) })
	in := func(owner string, opts ...task.Option) task.Spec {
		return meal.New(owner, 1, task.In(time.Hour), opts...)
	}
	inTx := func(fn func(tx *schedule.Tx) error) error { return c.InTx(ctx, fn) }
	twice := in("ann")
	_, err = c.Schedule(ctx, twice)
	pipelinetest.Must(t, err)
	calls.Store(0)
	for way, test := range map[string]struct {
		specs int64
		do    func(owner string) error
	}{
		"one":            {1, func(owner string) error { _, err := c.Schedule(ctx, in(owner)); return err }},
		"one with a key": {1, func(owner string) error { _, err := c.Schedule(ctx, in(owner, task.Key("k"))); return err }},
		"transaction": {1, func(owner string) error {
			return inTx(func(tx *schedule.Tx) error { _, err := tx.Schedule(ctx, in(owner)); return err })
		}},
		"many": {2, func(owner string) error {
			return inTx(func(tx *schedule.Tx) error {
				_, err := tx.ScheduleMany(ctx, []task.Spec{in("bob"), in(owner)})
				return err
			})
		}},
		"recurrence": {1, func(owner string) error {
			_, err := c.Recur(ctx, "weekly", weekly, meal.Recurring(owner, 1), recur.Policy{})
			return err
		}},
		"join": {1, func(owner string) error {
			tx, err := w.store.Begin(ctx)
			if err != nil {
				return err
			}
			joined := c.Join(tx)
			if _, err := joined.Schedule(ctx, in(owner)); err != nil {
				_ = tx.Rollback()
				return err
			}
			return joined.Commit(ctx)
		}},
	} {
		before := w.store.Number("SELECT COUNT(*) FROM duetime_tasks")
		wantIs(t, test.do("closed"), errClosed)
		if n := w.store.Number("SELECT COUNT(*) FROM duetime_tasks"); n != before {
			t.Errorf("%s: a refused call made %d tasks", way, n-before)
		}
		calls.Store(0)
		pipelinetest.Must(t, test.do("ann"))
		if got := calls.Load(); got != test.specs {
			t.Errorf("%s: the function was called %d times, want %d", way, got, test.specs)
		}
	}
	// Its id is taken, so that the shared statement leaves it to a transaction.
	calls.Store(0)
	row, err := c.Schedule(ctx, twice)
	pipelinetest.Must(t, err)
	if row.ID != twice.ID() || calls.Load() != 1 {
		t.Errorf("scheduling the same spec again: got task %s after %d calls, want %s after one", row.ID, calls.Load(), twice.ID())
	}
	if n := w.store.Number("SELECT COUNT(*) FROM duetime_tasks WHERE subject <> '+'"); n != 0 {
		t.Errorf("%d tasks are not as the function returned them", n)
	}
}

// A refusal changes nothing, so that the transaction goes on. What the function returns has to keep the limits.
func TestBeforeScheduleLeavesTheTransactionOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	var calls atomic.Int64
	known := kinds.New([]string{"default"})
	other := task.NewKind[int]("other", task.Queue("elsewhere"))
	before := func(ctx context.Context, spec task.Spec) (task.Spec, error) {
		switch spec.Owner() {
		case "long":
			return spec.With(task.Subject(string(make([]byte, task.MaxSubject+1)))), nil
		case "other":
			return other.New("other", 1, task.In(0)), nil
		}
		return counted(&calls)(ctx, spec)
	}
	cfg := schedule.Config{BeforeSchedule: before, Kinds: known, Logger: slog.New(slog.DiscardHandler)}
	c, err := schedule.New(cfg, w.store, w, w)
	pipelinetest.Must(t, err)
	t.Cleanup(func() { c.Close(context.Background()) })
	specs := []task.Spec{meal.New("ann", 1, task.In(time.Hour))}
	pipelinetest.Must(t, c.InTx(ctx, func(tx *schedule.Tx) error {
		for owner, field := range map[string]string{"long": "subject", "other": "queue", "closed": ""} {
			_, err := tx.Schedule(ctx, meal.New(owner, 1, task.In(time.Hour)))
			var refused *task.FieldError
			if field == "" {
				wantIs(t, err, errClosed)
			} else if !errors.As(err, &refused) || refused.Field != field {
				t.Errorf("%s: got %v, want a refusal of the %s", owner, err, field)
			}
		}
		_, err := tx.ScheduleMany(ctx, specs)
		return err
	}))
	if n := w.store.Number("SELECT COUNT(*) FROM duetime_tasks"); n != 1 {
		t.Errorf("%d tasks, want the one that was not refused", n)
	}
	if got := specs[0].Subject(); got != "" {
		t.Errorf("the caller's own spec has subject %q now", got)
	}
}
