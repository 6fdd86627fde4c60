package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// dueCrowd makes pending rows of a queue, due one after the other in the two hours before now. Their numbers make their ids.
func dueCrowd(t testing.TB, s *store.Store, queue, kind string, first, last int, now time.Time) {
	t.Helper()
	id := "UNHEX(LPAD(HEX(seq), 32, '0'))"
	if s.Dialect() == store.SQLite {
		id = "CAST(PRINTF('%016d', seq) AS BLOB)"
	}
	from := now.Add(-2*time.Hour).UnixMilli() - int64(first)
	must(t, exec(s.DB(), "INSERT INTO duetime_tasks (id, kind, owner, queue, due_at, run_at, payload, created_at, updated_at) SELECT "+id+
		", ?, 'ann', ?, ? + seq, ? + seq, '7', 0, 0 FROM "+pipelinetest.Numbers(first, last), kind, queue, from, from))
}

// Live reads a bounded part of what has ended and of what is due, hides no queue, and says which numbers are lower bounds.
func TestLiveIsBounded(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{})
	now := value[time.Time](t)(s.Clock(t.Context())).Truncate(time.Millisecond)
	dueCrowd(t, s, "mails", "a", 1, 20_000, now)
	dueCrowd(t, s, "ended", "a", 20_001, 25_000, now)
	must(t, exec(s.DB(), "UPDATE duetime_tasks SET state = 1 WHERE queue = 'ended'"))
	store.SetMaxCounted(s, 1000)
	late := now.Add(-time.Minute)
	due(t, s, late)
	got := value[store.Live](t)(s.Live(t.Context(), time.Minute))
	states := map[task.State]int64{task.Pending: 1000, task.Done: 1000, task.Cancelled: 0, task.Dead: 0}
	if d := cmp.Diff(states, got.States); d != "" {
		t.Errorf("states (-want +got):\n%s", d)
	}
	want := map[string]store.DueTasks{
		"mails": {Tasks: 20_000, Cut: true, Oldest: now.Add(-2 * time.Hour)}, "default": {Tasks: 1, Oldest: late},
	}
	if d := cmp.Diff(want, got.Due); d != "" || !got.Whole {
		t.Errorf("due, whole: %v (-want +got):\n%s", got.Whole, d)
	}
}

// A crowd of due tasks, as of a paused queue, hides no late task of another queue or kind.
func TestWaitingSeesBehindCrowds(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *store.Store) {
		now := time.Now().UTC().Truncate(time.Millisecond)
		dueCrowd(t, s, "mails", "a", 1, 30_000, now)
		dueCrowd(t, s, "mails", "b", 30_001, 55_000, now)
		late := newTasks(t, 2)
		for i := range late {
			late[i].RunAt, late[i].Queue, late[i].Kind = now.Add(-time.Minute), "default", []string{"meal", "walk"}[i]
		}
		late[1].Queue = "mails"
		inserted(t, s, late...)
		value[time.Time](t)(store.ReadFloor(t.Context(), s, 0)) // which these rows come to stand below
		counted := func(behind time.Duration) (all []store.Waiting, whole bool) {
			t.Helper()
			all, whole, _, err := s.Waiting(t.Context(), 30*time.Second, behind)
			must(t, err)
			for i := range all {
				if w := &all[i]; w.Due > 1 { // of crowds the numbers are lower bounds
					if w.Due < 5000 || w.Late != w.Due {
						t.Errorf("%+v, want at least 5000, all late", *w)
					}
					w.Due, w.Late = 0, 0
				}
				if w := &all[i]; w.Cut != (w.Due == 0 || !whole) {
					t.Errorf("%+v, read as a whole: %v", *w, whole)
				}
				all[i].Cut = false
			}
			return all, whole
		}
		want := []store.Waiting{
			{Queue: "default", Kind: "meal", Due: 1, Late: 1, Oldest: late[0].RunAt},
			{Queue: "mails", Kind: "a", Oldest: now.Add(-2 * time.Hour)},
			{Queue: "mails", Kind: "b", Oldest: now.Add(-2 * time.Hour)},
			{Queue: "mails", Kind: "walk", Due: 1, Late: 1, Oldest: late[1].RunAt},
		}
		got, whole := counted(time.Minute)
		if d := cmp.Diff(want, got); d != "" || !whole {
			t.Errorf("whole: %v (-want +got):\n%s", whole, d)
		}
		got, whole = counted(0) // these late tasks became due last
		if d := cmp.Diff(want, got); d != "" || whole {
			t.Errorf("in no time: whole: %v (-want +got):\n%s", whole, d)
		}
	})
}

// What becomes due is counted from now on, and not beyond the span.
func TestAhead(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *store.Store) {
		now := time.Now().UTC().Truncate(time.Millisecond)
		rows := newTasks(t, 4)
		for i, in := range []time.Duration{0, time.Millisecond, time.Hour, time.Hour + time.Millisecond} {
			rows[i].RunAt = now.Add(in)
		}
		inserted(t, s, rows...)
		want := []store.Waiting{{Queue: rows[0].Queue, Kind: rows[0].Kind, Due: 2, Oldest: rows[1].RunAt}}
		got := value[[]store.Waiting](t)(s.Ahead(t.Context(), now, time.Hour))
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}

// A crowd of due tasks hides no task that waits for a worker of its kind, be it due or put off.
func TestUnhandledSeesBehindCrowds(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *store.Store) {
		now := time.Now().UTC().Truncate(time.Millisecond)
		dueCrowd(t, s, "mails", "mail", 1, 25_000, now)
		worker := store.Process{ID: "w", Role: "worker", Detail: store.ProcessDetail{Queues: []string{"default"}, Kinds: []string{"known"}}}
		must(t, s.ReportProcess(t.Context(), worker, 0))
		waits := newTasks(t, 2)
		for i := range waits {
			waits[i].RunAt, waits[i].Queue, waits[i].Kind = now.Add(-time.Minute), "default", []string{"removed", "typo"}[i]
		}
		waits = inserted(t, s, waits...)
		inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
			must(t, worldtest.Save(ctx, s, tx, transition.Await(waits[0], now.Add(time.Minute))))
		})
		value[time.Time](t)(store.ReadFloor(t.Context(), s, 0)) // which these rows come to stand below
		want := []protocol.Unhandled{{Queue: "default", Kind: "removed", Tasks: 1}, {Queue: "default", Kind: "typo", Tasks: 1}}
		if d := cmp.Diff(want, unhandled(t, s)); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}
