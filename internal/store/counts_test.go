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

func TestUnhandledCountsWhatWaitsForAWorker(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *store.Store) {
		var specs []task.Task
		for i, kind := range []string{"removed", "removed", "typo", "known"} {
			row := newTask(t, "ann", time.Duration(i)*time.Second)
			row.Kind = kind
			specs = append(specs, row)
		}
		rows := inserted(t, s, specs...)
		snoozed := rows[1].Rearm(0, t0) // a handler snoozed the task, and the next worker does not know its kind
		inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
			must(t, s.Save(ctx, tx, []task.Task{rows[0].Await(t0), snoozed, rows[2].Await(t0)}))
			must(t, s.Save(ctx, tx, []task.Task{snoozed.Await(t0)}))
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
