package schedule_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

func TestConditions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	row := w.make(t, "ann")
	moved, err := w.Shift(ctx, row.ID, time.Minute, schedule.IfVersion(row.Version))
	pipelinetest.Must(t, err)
	for name, change := range map[string]func(...schedule.Condition) error{
		"shift": func(only ...schedule.Condition) error {
			_, err := w.Shift(ctx, row.ID, time.Minute, only...)
			return err
		},
		"reschedule": func(only ...schedule.Condition) error {
			_, err := w.Reschedule(ctx, row.ID, task.In(0), only...)
			return err
		},
		"cancel": func(only ...schedule.Condition) error { _, err := w.Cancel(ctx, row.ID, only...); return err },
		"in a transaction": func(only ...schedule.Condition) error {
			return w.InTx(ctx, func(tx *schedule.Tx) error { _, err := tx.Cancel(ctx, row.ID, only...); return err })
		},
	} {
		for _, unmet := range []schedule.Condition{schedule.IfVersion(row.Version), schedule.IfDueWithin(time.Minute)} {
			if err := change(unmet); !errors.Is(err, task.ErrUnmet) {
				t.Errorf("%s: %v, want %v", name, err, task.ErrUnmet)
			}
		}
	}
	errOwn := errors.New("the service's own")
	own := func(got task.Task, now time.Time) error {
		if got.ID != row.ID || !got.DueAt.Equal(moved.DueAt) || !now.Before(got.DueAt) {
			t.Errorf("at %v the service's condition is asked about %+v, want %+v", now, got, moved)
		}
		return errOwn
	}
	if _, err := w.Cancel(ctx, row.ID, own); !errors.Is(err, errOwn) {
		t.Errorf("a condition of the service's: %v, want its error", err)
	}
	if now := w.store.Row(row.ID); now.Version != moved.Version || !now.DueAt.Equal(moved.DueAt) {
		t.Errorf("it is %+v, want it as it was: %+v", now, moved)
	}
	if _, err := w.Cancel(ctx, row.ID, schedule.IfVersion(moved.Version), schedule.IfDueWithin(1000*time.Hour)); err != nil {
		t.Errorf("conditions that are met: %v", err)
	}
	if _, err := w.Cancel(ctx, row.ID, schedule.IfVersion(1)); !errors.Is(err, task.ErrAlreadyCancelled) {
		t.Errorf("of a task that has ended: %v", err)
	}
}

// A bid in the last minute puts the end off; an earlier one does not, and a later one is too late.
func TestExtend(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	bid := func(row task.Task, only ...schedule.Condition) (got task.Task, err error) {
		err = w.InTx(ctx, func(tx *schedule.Tx) error {
			got, err = tx.Extend(ctx, row.ID, time.Hour, only...)
			return err
		})
		return got, err
	}
	auction := w.make(t, "ann")
	early, err := bid(auction, schedule.IfDueWithin(time.Minute))
	if err != nil || early.Version != auction.Version || !early.DueAt.Equal(auction.DueAt) {
		t.Errorf("early: %+v, %v; want it as it was", early, err)
	}
	late, err := bid(auction, schedule.IfDueWithin(1000*time.Hour))
	if err != nil || !late.DueAt.Equal(auction.DueAt.Add(time.Hour)) {
		t.Errorf("late: %+v, %v; want an hour more", late, err)
	}
	if _, err := bid(auction, schedule.IfVersion(auction.Version)); !errors.Is(err, task.ErrUnmet) {
		t.Errorf("of another version: %v", err)
	}
	over, err := w.Reschedule(ctx, auction.ID, task.In(0))
	pipelinetest.Must(t, err)
	if _, err := bid(over, schedule.IfDueWithin(time.Minute)); !errors.Is(err, task.ErrDue) {
		t.Errorf("too late: %v, want %v", err, task.ErrDue)
	}
	var field *task.FieldError
	if err := w.InTx(ctx, func(tx *schedule.Tx) error { _, err := tx.Extend(ctx, over.ID, -1); return err }); !errors.As(err, &field) {
		t.Errorf("below 0: %v, want a FieldError", err)
	}
	_, err = w.Cancel(ctx, auction.ID)
	pipelinetest.Must(t, err)
	if _, err := bid(over); !errors.Is(err, task.ErrAlreadyCancelled) {
		t.Errorf("of a task that has ended: %v", err)
	}
}

func TestLockAndAwait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	row := w.make(t, "ann")
	pipelinetest.Must(t, w.InTx(ctx, func(tx *schedule.Tx) error {
		locked, err := tx.Lock(ctx, row.ID)
		if err != nil || locked.ID != row.ID || locked.State != task.Pending {
			t.Errorf("locked %+v, %v", locked, err)
		}
		_, err = tx.Lock(ctx, task.NewID())
		if !errors.Is(err, task.ErrNotFound) {
			t.Errorf("an unknown id: %v", err)
		}
		return nil
	}))
	over, stop := context.WithTimeout(ctx, 20*time.Millisecond)
	defer stop()
	if got, err := w.Await(over, row.ID); !errors.Is(err, context.DeadlineExceeded) || got.ID != row.ID {
		t.Errorf("while it is pending: %+v, %v", got, err)
	}
	ended := make(chan task.Task, 1)
	go func() {
		got, err := w.Await(ctx, row.ID)
		if err != nil {
			t.Error(err)
		}
		ended <- got
	}()
	_, err := w.Cancel(ctx, row.ID)
	pipelinetest.Must(t, err)
	if got := <-ended; got.State != task.Cancelled {
		t.Errorf("awaited %+v", got)
	}
	if _, err := w.Await(ctx, task.NewID()); !errors.Is(err, task.ErrNotFound) {
		t.Errorf("an unknown id: %v", err)
	}
}
