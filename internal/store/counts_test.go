package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/task"
)

func TestOldestPassesOverPausedQueues(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *store.Store) {
		now := time.Now().UTC().Truncate(time.Millisecond)
		var specs []task.Task
		for i, queue := range []string{"paused", "default"} {
			row, err := kind.New("ann", 7, task.At(now.Add(time.Duration(i)*time.Second))).Resolve(now)
			must(t, err)
			row.Queue = queue
			specs = append(specs, row)
		}
		rows := inserted(t, s, specs...)
		oldest := func() time.Time {
			at, _, err := s.Oldest(t.Context())
			must(t, err)
			return at
		}
		if got := oldest(); !got.Equal(rows[0].RunAt) {
			t.Errorf("the oldest is due at %v, want %v", got, rows[0].RunAt)
		}
		value[bool](t)(s.Pause(t.Context(), s.DB(), "paused", now))
		if got := oldest(); !got.Equal(rows[1].RunAt) {
			t.Errorf("paused: the oldest is due at %v, want %v", got, rows[1].RunAt)
		}
	})
}

func TestUnhandledCountsWhatWaitsForAWorker(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *store.Store) {
		now := time.Now().UTC().Truncate(time.Millisecond)
		var specs []task.Task
		for i, name := range []string{"removed", "removed", "typo", "known"} {
			row, err := kind.New("ann", 7, task.At(now.Add(time.Duration(i)*time.Second))).Resolve(now)
			must(t, err)
			row.Kind = name
			specs = append(specs, row)
		}
		rows := inserted(t, s, specs...)
		snoozed := rows[1].Rearm(0, now) // a handler snoozed the task, and the next worker does not know its kind
		inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
			must(t, s.Save(ctx, tx, []task.Task{rows[0].Await(now), snoozed, rows[2].Await(now)}))
			must(t, s.Save(ctx, tx, []task.Task{snoozed.Await(now)}))
		})
		want := []store.Unhandled{{Queue: "default", Kind: "removed", Tasks: 2}, {Queue: "default", Kind: "typo", Tasks: 1}}
		for _, among := range []int{0, 100} {
			if d := cmp.Diff(want, value[[]store.Unhandled](t)(s.Unhandled(t.Context(), among))); d != "" {
				t.Errorf("among %d (-want +got):\n%s", among, d)
			}
		}
		if got := value[store.Live](t)(s.Live(t.Context(), time.Minute)).Unhandled; len(got) != 2 {
			t.Errorf("live: %v", got)
		}
	})
}
