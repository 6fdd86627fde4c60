package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

func TestOldest(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *store.Store) {
		now := time.Now().UTC().Truncate(time.Millisecond)
		insert := func(queue, kind string, ago time.Duration) task.Task {
			t.Helper()
			row := newTask(t, "ann", 0)
			row.Queue, row.Kind, row.RunAt = queue, kind, now.Add(-ago)
			return inserted(t, s, row)[0]
		}
		want := func(what string, rows ...task.Task) {
			t.Helper()
			want := map[string]time.Time{}
			for _, row := range rows {
				want[row.Queue] = row.RunAt
			}
			value[time.Time](t)(store.ReadFloor(t.Context(), s, 0)) // which these rows come to stand below
			got, _, err := s.Oldest(t.Context())
			must(t, err)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s (-want +got):\n%s", what, d)
			}
		}
		want("nothing is due")
		insert("default", "known", -time.Hour)
		mail := insert("mails", "mail", 3*time.Minute)
		typo := insert("default", "knwon", 2*time.Minute)
		known := insert("default", "known", time.Minute)
		want("nobody says what is handled", mail, typo)
		worker := store.Process{ID: "w", Role: "worker", Detail: store.ProcessDetail{Queues: []string{"default"}, Kinds: []string{"known", "mail"}}}
		must(t, s.ReportProcess(t.Context(), worker, 0))
		want("no worker of its queue handles a kind", mail, known)
		lacking := []protocol.Unhandled{{Queue: "default", Kind: "knwon", Tasks: 1}}
		if d := cmp.Diff(lacking, unhandled(t, s)); d != "" {
			t.Errorf("unhandled (-want +got):\n%s", d)
		}
		value[bool](t)(s.Pause(t.Context(), s.DB(), "mails", now, time.Time{}))
		want("a queue is paused", known)
		must(t, s.EndProcess(t.Context(), worker))
		want("no worker lives", typo)
	})
}

// unhandled are the tasks that wait for a worker of their kind, by both readings.
func unhandled(t *testing.T, s *store.Store) []protocol.Unhandled {
	t.Helper()
	waiting, _, at, err := s.Waiting(t.Context(), 0, time.Minute)
	must(t, err)
	got := value[[]protocol.Unhandled](t)(s.Unhandled(t.Context(), waiting, at, 100))
	if d := cmp.Diff(value[[]protocol.Unhandled](t)(s.AllUnhandled(t.Context())), got); d != "" {
		t.Errorf("unhandled, of all and of some (-all +some):\n%s", d)
	}
	return got
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
		snoozed := transition.Rearm(rows[1], 0, now) // a handler snoozed the task, and the next worker does not know its kind
		inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
			must(t, worldtest.Save(ctx, s, tx, transition.Await(rows[0], now), snoozed, transition.Await(rows[2], now)))
			must(t, worldtest.Save(ctx, s, tx, transition.Await(snoozed, now)))
		})
		want := []protocol.Unhandled{{Queue: "default", Kind: "removed", Tasks: 2}, {Queue: "default", Kind: "typo", Tasks: 1}}
		if d := cmp.Diff(want, unhandled(t, s)); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		if got := value[store.Live](t)(s.Live(t.Context(), time.Minute)).Unhandled; len(got) != 2 {
			t.Errorf("live: %v", got)
		}
	})
}
