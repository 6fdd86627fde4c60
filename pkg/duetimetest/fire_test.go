package duetimetest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/duetimetest"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

func TestFireRunsEachAtItsTime(t *testing.T) {
	t.Parallel()
	shops(t, func(t *testing.T, s *shop) {
		s.schedule(
			expire.New("ada", Expire{Order: 3}, task.At(s.now.Add(10*time.Minute))),
			expire.New("bob", Expire{Order: 1}, task.At(s.now.Add(time.Minute))),
			expire.New("cyd", Expire{Order: 4}, task.At(s.now.Add(11*time.Minute))),
			expire.New("dan", Expire{Order: 2}, task.At(s.now.Add(time.Minute+time.Second))),
		)
		mux := worker.NewMux()
		worker.Handle(mux, expire, effect)
		fired := duetimetest.Fire(t, s.db, mux, s.now.Add(10*time.Minute+time.Millisecond))
		if diff := cmp.Diff([]string{"order.expire1", "order.expire2", "order.expire3"}, s.effects()); diff != "" {
			t.Errorf("effects (-want +got):\n%s", diff)
		}
		for _, f := range fired {
			if f.Result != duetimetest.Done || f.State != task.Done || f.At.Before(f.DueAt) || f.At.Sub(f.DueAt) > 5*time.Second {
				t.Errorf("got %s of %s at %v, due at %v", f.Result, f.Owner, f.At, f.DueAt)
			}
		}
		if len(fired) != 3 {
			t.Errorf("got %d runs, want 3", len(fired))
		}
		if again := duetimetest.Fire(t, s.db, mux, s.now.Add(10*time.Minute)); len(again) != 0 {
			t.Errorf("got %d runs the second time, want none", len(again))
		}
		duetimetest.RequireScheduled(t, s.db, expire, "cyd")
	})
}

func TestFireFollowsFollowUps(t *testing.T) {
	t.Parallel()
	s := onMySQL(t)
	mux := worker.NewMux()
	worker.Handle(mux, expire, func(ctx context.Context, tx *worker.Tx, w worker.Task[Expire]) error {
		if err := effect(ctx, tx, w); err != nil {
			return err
		}
		_, err := tx.Schedule(ctx, expire.New(w.Owner, Expire{Order: w.Payload.Order + 1}, task.In(4*time.Hour)))
		return err
	})
	s.schedule(expire.New("ada", Expire{Order: 1}, task.At(s.now.Add(4*time.Hour))))
	if fired := duetimetest.Fire(t, s.db, mux, s.now.Add(13*time.Hour)); len(fired) != 3 {
		t.Errorf("got %d runs in 13 hours, want 3", len(fired))
	}
	next := duetimetest.RequireScheduled(t, s.db, expire, "ada", duetimetest.Payload(Expire{Order: 4}))
	if in := next.DueAt.Sub(s.now); in < 16*time.Hour || in > 16*time.Hour+time.Minute {
		t.Errorf("got the fourth in %v, want 16 h", in)
	}
}

// A handler's first look at the clock may come with the lock of its owner's tasks.
func TestFireKeepsItsClockInOwnerWideChanges(t *testing.T) {
	t.Parallel()
	shops(t, func(t *testing.T, s *shop) {
		mux := worker.NewMux()
		worker.Handle(mux, expire, func(ctx context.Context, tx *worker.Tx, w worker.Task[Expire]) error {
			if w.Payload.Order > 1 {
				return nil
			}
			change := func() error { _, err := tx.CancelOwner(ctx, w.Owner, remind.Name()); return err }
			if w.Owner == "bob" {
				change = func() error { _, err := tx.ShiftOwner(ctx, w.Owner, remind.Name(), -48*time.Hour); return err }
			}
			if err := change(); err != nil {
				return err
			}
			_, err := tx.Schedule(ctx, expire.New(w.Owner, Expire{Order: 2}, task.In(time.Hour)))
			return err
		})
		for i, owner := range []string{"ada", "bob", "cyd"} { // each in a transaction of its own; cyd has no other task
			s.schedule(expire.New(owner, Expire{Order: 1}, task.At(s.now.Add(24*time.Hour+time.Duration(i)*time.Minute))))
			if owner != "cyd" {
				s.schedule(remind.New(owner, Expire{}, task.At(s.now.Add(30*time.Hour))))
			}
		}
		fired := duetimetest.Fire(t, s.db, mux, s.now.Add(24*time.Hour+30*time.Minute))
		if len(fired) != 3 {
			t.Errorf("got %d runs, want the first task of each owner", len(fired))
		}
		for _, f := range fired {
			next := duetimetest.Scheduled(t, s.db, expire, f.Owner)
			if len(next) != 1 || next[0].DueAt.Sub(f.At) < time.Hour || next[0].DueAt.Sub(f.At) > time.Hour+5*time.Second {
				t.Errorf("%s at %v: got the follow-ups %v, want one due an hour later", f.Owner, f.At, next)
			}
			for _, moved := range duetimetest.Scheduled(t, s.db, remind, f.Owner) {
				if f.Owner != "bob" || moved.DueAt.Before(f.At) {
					t.Errorf("%s at %v: got a task due at %v", f.Owner, f.At, moved.DueAt)
				}
			}
		}
	})
}

func TestFireRetries(t *testing.T) {
	t.Parallel()
	s := onMySQL(t)
	mux := worker.NewMux()
	worker.Handle(mux, expire, func(context.Context, *worker.Tx, worker.Task[Expire]) error { return errors.New("out of paper") })
	snoozes := 0
	worker.Handle(mux, remind, func(ctx context.Context, tx *worker.Tx, w worker.Task[Expire]) error {
		if snoozes++; snoozes < 3 {
			return worker.Snooze(time.Hour)
		}
		return effect(ctx, tx, w)
	})
	worker.HandleOutside(mux, mail, func(context.Context, worker.Task[Expire]) error {
		return worker.Discard(errors.New("no such address"))
	})
	s.schedule(
		expire.New("ada", Expire{Order: 1}, task.In(time.Hour)),
		remind.New("ada", Expire{Order: 2}, task.In(2*time.Hour)),
		mail.New("ada", Expire{Order: 3}, task.In(3*time.Hour)),
	)
	var got []string
	for _, f := range duetimetest.Fire(t, s.db, mux, s.now.Add(24*time.Hour)) {
		got = append(got, fmt.Sprintf("%s %s %d %v", f.Kind, f.Result, f.Attempt, f.Err != nil))
	}
	want := []string{
		"order.expire failed 1 true", "order.expire failed 2 true", "order.expire dead 3 true",
		"order.remind snoozed 0 true", "order.mail dead 1 true", "order.remind snoozed 0 true", "order.remind done 0 false",
	}
	// The snoozed task and the mail are due at about the same time.
	want[4], want[5] = got[4], got[5]
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
}

func TestFireBatch(t *testing.T) {
	t.Parallel()
	s := onMySQL(t)
	mux := worker.NewMux()
	var calls []int
	worker.HandleBatch(mux, remind, func(_ context.Context, _ *worker.Tx, ws []worker.Task[Expire]) error {
		calls = append(calls, len(ws))
		return nil
	})
	var specs []task.Spec
	for i := range 250 {
		specs = append(specs, remind.New(fmt.Sprint("owner", i), Expire{Order: i}, task.At(s.now.Add(time.Hour))))
	}
	s.schedule(specs...)
	if fired := duetimetest.Fire(t, s.db, mux, s.now.Add(2*time.Hour)); len(fired) != 250 {
		t.Errorf("got %d runs, want 250", len(fired))
	}
	if diff := cmp.Diff([]int{100, 100, 50}, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestFireHeedsChanges(t *testing.T) {
	t.Parallel()
	s := onMySQL(t)
	mux := worker.NewMux()
	worker.Handle(mux, expire, effect)
	gone := expire.New("ada", Expire{Order: 1}, task.In(time.Minute))
	moved := expire.New("ada", Expire{Order: 2}, task.In(time.Minute))
	s.schedule(gone, moved, mail.New("ada", Expire{Order: 3}, task.In(time.Minute)))
	_, err := s.client.Cancel(t.Context(), gone.ID())
	pipelinetest.Must(t, err)
	_, err = s.client.Shift(t.Context(), moved.ID(), time.Hour)
	pipelinetest.Must(t, err)
	if fired := duetimetest.Fire(t, s.db, mux, s.now.Add(30*time.Minute)); len(fired) != 0 {
		t.Errorf("got %d runs, want none", len(fired))
	}
	if fired := duetimetest.Fire(t, s.db, mux, s.now.Add(2*time.Hour)); len(fired) != 1 || fired[0].ID != moved.ID() {
		t.Errorf("got %v, want the moved task", fired)
	}
	duetimetest.RequireScheduled(t, s.db, mail, "ada") // it has no handler and was not run
}

func TestFireFailsTheTest(t *testing.T) {
	t.Parallel()
	s := onMySQL(t)
	mux := worker.NewMux()
	worker.Handle(mux, expire, func(ctx context.Context, tx *worker.Tx, w worker.Task[Expire]) error {
		_, err := tx.Reschedule(ctx, w.ID, task.In(time.Millisecond))
		return err
	})
	s.schedule(expire.New("ada", Expire{Order: 1}, task.In(0)))
	got := refusal(t, func(t testing.TB) { duetimetest.Fire(t, s.db, mux, s.now.Add(1000*time.Hour)) })
	if !strings.Contains(got, "without an end") || !strings.Contains(got, "ran order.expire") {
		t.Errorf("got %q", got)
	}
}

func TestFireNamesALockedRow(t *testing.T) {
	t.Parallel()
	shops(t, func(t *testing.T, s *shop) {
		mux := worker.NewMux()
		worker.Handle(mux, expire, effect)
		spec := expire.New("ada", Expire{Order: 1}, task.In(time.Minute))
		s.schedule(spec)
		tx, err := s.plain.BeginTx(t.Context(), nil)
		pipelinetest.Must(t, err)
		id := spec.ID()
		_, err = tx.ExecContext(t.Context(), "UPDATE duetime_tasks SET version = version + 1 WHERE id = ?", id[:])
		pipelinetest.Must(t, err)
		got := refusal(t, func(t testing.TB) { duetimetest.Fire(t, s.db, mux, s.now.Add(time.Hour)) })
		if !strings.Contains(got, spec.ID().String()) || !strings.Contains(got, "locked by a transaction") {
			t.Errorf("got %q", got)
		}
		pipelinetest.Must(t, tx.Rollback())
		if fired := duetimetest.Fire(t, s.db, mux, s.now.Add(time.Hour)); len(fired) != 1 {
			t.Errorf("got %d runs after the rollback, want 1", len(fired))
		}
	})
}

// A recurrence ticks on the test's clock.
func TestFireRecurrences(t *testing.T) {
	t.Parallel()
	shops(t, func(t *testing.T, s *shop) {
		mux := worker.NewMux()
		worker.Handle(mux, remind, effect)
		daily := recur.Cron("0 8 * * *", "Europe/Berlin")
		_, err := s.client.Recur(t.Context(), "morning", daily, remind.Recurring("ada", Expire{Order: 1}), recur.Policy{})
		pipelinetest.Must(t, err)
		week := daily.Ticks(s.now, 8)
		fired := duetimetest.Fire(t, s.db, mux, week[6])
		if len(fired) != 7 {
			t.Errorf("got %d runs in a week, want 7", len(fired))
		}
		for i, f := range fired {
			if _, at, ok := f.Tick(); !ok || !at.Equal(week[i]) || f.Result != duetimetest.Done || f.At.Sub(at) > 5*time.Second {
				t.Errorf("got %s at %v of the tick %v, want %v", f.Result, f.At, at, week[i])
			}
		}
		if next := duetimetest.RequireScheduled(t, s.db, remind, "ada"); !next.DueAt.Equal(week[7]) {
			t.Errorf("got the next one at %v, want %v", next.DueAt, week[7])
		}
	})
}
