package duetimetest_test

import (
	"context"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/duetimetest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// A story of several steps: what a client schedules, moves and reads goes by the same clock as what fires.
func TestStory(t *testing.T) {
	t.Parallel()
	shops(t, func(t *testing.T, s *shop) {
		ctx := t.Context()
		mux := worker.NewMux()
		worker.Handle(mux, expire, func(ctx context.Context, tx *worker.Tx, w worker.Task[Expire]) error {
			if err := effect(ctx, tx, w); err != nil || w.Payload.Order == 2 {
				return err
			}
			_, err := tx.Schedule(ctx, expire.New(w.Owner, Expire{Order: w.Payload.Order + 1}, task.In(4*time.Hour))) // an auto-feed card
			return err
		})
		clock := duetimetest.NewClock(t, s.db)
		client := duetimetest.Client(t, s.db, duetimetest.On(clock), duetimetest.Handlers(mux))
		read := func() (done, effects int) {
			pipelinetest.Must(t, client.Fresh(ctx, "ada", func(_ *schedule.Tx, settled schedule.Settled) error {
				done = settled.Done
				return nil
			}))
			return done, len(s.effects())
		}

		began := clock.Now(t)
		meal, err := client.Schedule(ctx, expire.New("ada", Expire{Order: 1}, task.In(4*time.Hour)))
		pipelinetest.Must(t, err)
		if fired := clock.Advance(t, 90*time.Minute, mux); len(fired) != 0 {
			t.Errorf("fired %v after 90 minutes", fired)
		}
		sped, err := client.Shift(ctx, meal.ID, -2*time.Hour) // due 2 h after the beginning
		pipelinetest.Must(t, err)
		if in := sped.DueAt.Sub(clock.Now(t)); in > 31*time.Minute || in < 25*time.Minute {
			t.Errorf("a speed-up card makes it due in %v, want half an hour", in)
		}
		clock.Advance(t, 29*time.Minute, nil)
		if done, effects := read(); done != 0 || effects != 0 {
			t.Errorf("%d done, %d effects a minute before", done, effects)
		}
		clock.Advance(t, 2*time.Minute, nil) // no worker runs
		if done, effects := read(); done != 1 || effects != 1 {
			t.Errorf("%d done, %d effects after its time, want one", done, effects)
		}
		next := duetimetest.RequireScheduled(t, s.db, expire, "ada", duetimetest.Payload(Expire{Order: 2}))
		if !next.DueAt.Equal(sped.DueAt.Add(4 * time.Hour)) {
			t.Errorf("the next meal ends at %v, want 4 h after %v", next.DueAt, sped.DueAt)
		}
		fired := clock.Advance(t, 5*time.Hour, mux)
		if len(fired) != 1 || fired[0].ID != next.ID || len(s.effects()) != 2 {
			t.Errorf("fired %v, want the second meal", fired)
		}
		if since := clock.Now(t).Sub(began); since < 7*time.Hour || since > 8*time.Hour {
			t.Errorf("%v have passed, want 7 h and a minute", since)
		}
	})
}
