package schedule_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// looked is a store that calls before with the number of each look at what is due of an owner.
type looked struct {
	*worldtest.Store
	before func(look int)
	looks  int
}

func (l *looked) ListOwnerDue(ctx context.Context, owner, kind string, at time.Time, limit int) ([]task.Task, error) {
	l.looks++
	l.before(l.looks)
	return l.Store.ListOwnerDue(ctx, owner, kind, at, limit)
}

// awaitDue calls AwaitDue. Before each look it calls before, which may end the context of the call.
func (w *world) awaitDue(t *testing.T, owner, kind string, before func(look int, stop func())) (left []task.ID, looks int, err error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	l := &looked{Store: w.store, before: func(look int) { before(look, stop) }}
	c, err := schedule.New(schedule.Config{}, l, w, w)
	pipelinetest.Must(t, err)
	defer c.Close(context.WithoutCancel(ctx))
	rows, err := c.AwaitDue(ctx, owner, kind)
	for _, row := range rows {
		left = append(left, row.ID)
	}
	return left, l.looks, err
}

// wantLeft wants these tasks to be waited for.
func (w *world) wantLeft(t *testing.T, owner, kind string, want ...task.ID) {
	t.Helper()
	left, _, err := w.awaitDue(t, owner, kind, func(look int, stop func()) {
		if look == 2 {
			stop()
		}
	})
	if d := cmp.Diff(want, left); d != "" || (len(want) > 0) != errors.Is(err, context.Canceled) {
		t.Errorf("%s, %q: %v; left (-want +got):\n%s", owner, kind, err, d)
	}
}

func (w *world) dueNow(t *testing.T, owner string) task.ID {
	t.Helper()
	row, err := w.Schedule(t.Context(), meal.New(owner, 1, task.In(0)))
	pipelinetest.Must(t, err)
	return row.ID
}

// finish marks a task done, as a worker does.
func (w *world) finish(id task.ID) {
	w.store.InTx(func(ctx context.Context, tx *sqlx.Tx) error {
		return worldtest.Finish(ctx, w.store.Store, tx, []task.Task{w.store.Row(id)}, time.Now())
	})
}

// What is due of the owner is waited for until all of it has ended. What comes later, or belongs to others, is not.
func TestAwaitDue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.make(t, "ann")
	other := w.dueNow(t, "bob")
	w.wantLeft(t, "ann", "")
	first, second := w.dueNow(t, "ann"), w.dueNow(t, "ann")
	w.wantLeft(t, "ann", "", first, second)
	w.wantLeft(t, "ann", meal.Name(), first, second)
	w.wantLeft(t, "ann", "other.kind")
	w.wantLeft(t, "bob", "", other)
	left, looks, err := w.awaitDue(t, "ann", "", func(look int, _ func()) {
		switch look {
		case 2:
			w.finish(first)
		case 4:
			w.finish(second)
		}
	})
	if err != nil || left != nil || looks != 4 {
		t.Errorf("after %d looks %v are left, %v; want none after 4", looks, left, err)
	}
	var field *task.FieldError
	if _, err := w.AwaitDue(t.Context(), "", ""); !errors.As(err, &field) || field.Field != "owner" {
		t.Errorf("without an owner: %v", err)
	}
}

// A task that fails while it is waited for has no effect yet. One that gets another due time is due no more.
func TestAwaitDueOfOneThatFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	failing, moved := w.dueNow(t, "ann"), w.dueNow(t, "ann")
	left, _, err := w.awaitDue(t, "ann", "", func(look int, stop func()) {
		switch look {
		case 2:
			w.store.Exec("UPDATE duetime_tasks SET attempt = 1, version = version + 1, run_at = run_at + 3600000 WHERE id = ?", failing[:])
			_, err := w.Shift(t.Context(), moved, time.Hour)
			pipelinetest.Must(t, err)
		case 4:
			stop()
		}
	})
	if d := cmp.Diff([]task.ID{failing}, left); d != "" || !errors.Is(err, context.Canceled) {
		t.Errorf("%v; left (-want +got):\n%s", err, d)
	}
	w.wantLeft(t, "ann", "") // its next attempt is in an hour
}

// What was put off without an attempt is due and has no effect, so it is waited for.
func TestAwaitDueOfWhatWasPutOff(t *testing.T) {
	t.Parallel()
	for why, c := range map[string]struct {
		attempt, seconds int
		lastError        string
		waits            bool
	}{
		"for a worker of its kind":         {0, 60, transition.Unhandled, true},
		"by a snooze":                      {0, 590, "", true},
		"behind another task, after a try": {1, 60, transition.BehindTried, true},
		"for a retry":                      {1, 60, "broken", false},
		"for longer":                       {0, 3600, "", false},
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			id, want := w.dueNow(t, "ann"), []task.ID(nil)
			w.make(t, "ann", task.Subject("due in an hour"))
			w.store.Exec("UPDATE duetime_tasks SET run_at = run_at + ?, attempt = ?, last_error = ? WHERE id = ?",
				c.seconds*1000, c.attempt, c.lastError, id[:])
			if c.waits {
				want = []task.ID{id}
			}
			w.wantLeft(t, "ann", "", want...)
		})
	}
}
