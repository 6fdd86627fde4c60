package store_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// ago makes a task that was due so long ago.
func ago(t testing.TB, owner string, d time.Duration) task.Task {
	t.Helper()
	row := newTask(t, owner, 0)
	row.RunAt = time.Now().Add(-d).Truncate(time.Millisecond).UTC()
	row.DueAt = row.RunAt
	return row
}

func dueRows(t *testing.T, s *store.Store) {
	first, second := ago(t, "ann", 2*time.Minute), ago(t, "ann", time.Minute)
	later, done := newTask(t, "ann", time.Hour), ago(t, "ann", time.Hour)
	other := ago(t, "ann", time.Second)
	other.Queue = "other"
	rows := inserted(t, s, second, first, later, done, other, ago(t, "Ann", 0), ago(t, "bob", time.Hour))
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		must(t, worldtest.Finish(ctx, s, tx, rows[3:4], t0))
		_, err := s.Pause(ctx, tx, "other", t0, time.Time{})
		must(t, err)
	})
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		due, err := s.LockDue(ctx, tx, "ann", 0, 100)
		must(t, err)
		if d := cmp.Diff([]task.ID{first.ID, second.ID, other.ID}, ids(due.Rows)); d != "" {
			t.Errorf("by id (-want +got):\n%s", d)
		}
		if len(due.Bars) > 0 || due.Held[first.ID] || !due.Held[other.ID] {
			t.Errorf("bars %v, held %v; want the task of the paused queue alone", due.Bars, due.Held)
		}
		if since := value[time.Time](t)(s.Now(ctx, tx)).Sub(due.Now); since < 0 || since > time.Minute {
			t.Errorf("its time is %v ago", since)
		}
		if due, err = s.LockDue(ctx, tx, "ann", 0, 1); err != nil || len(due.Rows) != 1 || due.Rows[0].ID != first.ID {
			t.Errorf("the first one: %v, %v", due.Rows, err)
		}
		soon := time.Until(t0.Add(2 * time.Hour))
		if due, err = s.LockDue(ctx, tx, "ann", soon, 100); err != nil || len(due.Rows) != 4 {
			t.Errorf("soon: %d, %v; want the later one too", len(due.Rows), err)
		}
		if due, err = s.LockDue(ctx, tx, "nobody", 0, 100); err != nil || len(due.Rows) != 0 || !due.Now.IsZero() {
			t.Errorf("of nobody: %v at %v, %v", due.Rows, due.Now, err)
		}
		if due, err = s.LockToRunNow(ctx, tx, later.ID); err != nil || len(due.Rows) != 1 || due.Rows[0].ID != later.ID {
			t.Errorf("one by id: %v, %v", due.Rows, err)
		}
		if due, err = s.LockToRunNow(ctx, tx, task.NewID()); err != nil || len(due.Rows) != 0 {
			t.Errorf("an unknown one: %v, %v", due.Rows, err)
		}
	})
	now := value[time.Time](t)(s.Now(t.Context(), nil))
	for _, c := range []struct {
		kind  string
		at    time.Time
		limit int
		want  []task.ID
	}{
		{"", now, 100, []task.ID{first.ID, second.ID, other.ID}},
		{first.Kind, now, 2, []task.ID{first.ID, second.ID}},
		{"", second.RunAt, 100, []task.ID{first.ID, second.ID}},
		{"", second.RunAt.Add(-time.Millisecond), 100, []task.ID{first.ID}},
		{"unknown", now, 100, []task.ID{}},
	} {
		found := value[[]task.Task](t)(s.ListOwnerDue(t.Context(), "ann", c.kind, c.at, c.limit))
		if d := cmp.Diff(c.want, ids(found)); d != "" {
			t.Errorf("due of %q at %v (-want +got):\n%s", c.kind, c.at, d)
		}
	}
}

// Rows that were put off without an attempt are counted, and listed. Those that wait for a retry are not.
func putOffRows(t *testing.T, s *store.Store) {
	key := task.NewID().String()
	rows := make([]task.Task, 4)
	for i := range rows {
		rows[i] = ago(t, "ann", time.Minute)
		rows[i].OrderKey = "k" + key
	}
	tried, snoozed, behind := &rows[1], &rows[2], &rows[3]
	tried.Attempt, tried.LastError = 1, "broken"
	behind.Attempt, behind.LastError = 1, transition.BehindTried+"another"
	inserted(t, s, rows...)
	now := value[time.Time](t)(s.Now(t.Context(), nil))
	for _, row := range []*task.Task{tried, snoozed, behind} {
		must(t, exec(s.DB(), "UPDATE duetime_tasks SET run_at = ?, attempt = ?, last_error = ? WHERE id = ?",
			now.Add(5*time.Minute).UnixMilli(), row.Attempt, row.LastError, row.ID[:]))
	}
	found := value[[]task.Task](t)(s.ListOwnerDue(t.Context(), "ann", "", now, 100))
	if d := cmp.Diff([]task.ID{rows[0].ID, snoozed.ID, behind.ID}, ids(found)); d != "" {
		t.Errorf("due (-want +got):\n%s", d)
	}
	check := func(rows int) {
		t.Helper()
		inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
			due, err := s.LockDue(ctx, tx, "ann", 0, 100)
			if must(t, err); len(due.Rows) != rows || due.PutOff != 2 {
				t.Errorf("the owner has %d rows and %d that were put off, want %d and 2", len(due.Rows), due.PutOff, rows)
			}
			due, err = s.LockDueInOrder(ctx, tx, "k"+key, 0, 100)
			if must(t, err); len(due.Rows) != rows || due.PutOff != 2 {
				t.Errorf("the key has %d rows and %d that were put off, want %d and 2", len(due.Rows), due.PutOff, rows)
			}
		})
	}
	check(1)
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		must(t, worldtest.Finish(ctx, s, tx, value[[]task.Task](t)(s.Get(ctx, tx, []task.ID{rows[0].ID})), t0))
	})
	check(0)
}

// An owner with many tasks of which none is due costs a seek; what is due is found by the owner's index, and locked by id.
func TestPlanOfLockDue(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{MaxOpen: 1}) // whose session counts all
	crowdOf(t, s, "ann", 5_000)
	must(t, exec(s.DB(), "UPDATE duetime_tasks SET due_at = ?, run_at = ?", t0.UnixMilli(), t0.UnixMilli()))
	before := rowsRead(t, s)
	tx := begin(t, s)
	due, err := s.LockDue(t.Context(), tx, "ann", 0, 100)
	must(t, err)
	must(t, tx.Rollback())
	if n := rowsRead(t, s) - before; len(due.Rows) != 0 || n > 10 {
		t.Errorf("locked %d rows, and read %d; want a seek", len(due.Rows), n)
	}
	before = rowsRead(t, s)
	listed := value[[]task.Task](t)(s.ListOwnerDue(t.Context(), "ann", "", time.Now(), 100))
	if n := rowsRead(t, s) - before; len(listed) != 0 || n > 10 {
		t.Errorf("listed %d rows, and read %d; want a seek", len(listed), n)
	}

	two := inserted(t, s, ago(t, "ann", time.Minute), ago(t, "ann", time.Second))
	e := &explainer{DB: s.DB()}
	_, err = s.LockDue(t.Context(), e, "ann", 0, 100)
	must(t, err)
	var steps []string
	for _, p := range e.plans {
		if strings.Contains(p.Select, "SUBQUERY") || strings.Contains(p.Extra.String, "No tables used") {
			continue
		}
		steps = append(steps, strings.Join([]string{p.Select, p.Type.String, p.Key.String}, " "))
	}
	if d := cmp.Diff([]string{"PRIMARY ALL ", "PRIMARY eq_ref PRIMARY", "DERIVED ALL ", "DERIVED range duetime_tasks_owner"}, steps); d != "" {
		t.Errorf("plan: what was found first, then its rows by id (-want +got):\n%s", d)
	}

	tx = begin(t, s)
	if due, err = s.LockDue(t.Context(), tx, "ann", 0, 100); err != nil || len(due.Rows) != len(two) {
		t.Errorf("locked %d rows, %v", len(due.Rows), err)
	}
	if locked := pipelinetest.RowLocks(t, tx); locked != len(two) {
		t.Errorf("%d locks, want %d", locked, len(two))
	}
	must(t, tx.Rollback())
}
