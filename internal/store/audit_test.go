package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/task"
)

// invalidRows makes one row after another that no transition makes, and counts them.
func invalidRows(t *testing.T, s *store.Store) {
	found := func(what string, premature, invalid int64) store.RowAudit {
		t.Helper()
		got := value[store.RowAudit](t)(s.AuditRows(t.Context()))
		if got.Premature != premature || got.Invalid != invalid {
			t.Errorf("%s: %+v, want %d premature and %d invalid", what, got, premature, invalid)
		}
		return got
	}
	found("nothing", 0, 0)
	row := inserted(t, s, newTask(t, "ann", time.Hour))[0]
	set := func(columns string) {
		t.Helper()
		must(t, exec(s.DB(), "UPDATE duetime_tasks SET "+columns+" WHERE id = ?", row.ID[:]))
	}
	const right = "state = 0, version = 1, attempt = 0, max_attempts = 25, run_at = due_at, finished_at = 0, dedup_key = NULL"
	for _, columns := range []string{
		right, "finished_at = NULL", "attempt = 25", "run_at = due_at + 60000", "dedup_key = 'kmeal'",
		"state = 1, finished_at = due_at", "state = 1, finished_at = due_at + 12, dedup_key = 'okey'", "state = 2, finished_at = 1",
		"state = 3, attempt = 25, finished_at = due_at + 9",
	} {
		set(right)
		set(columns)
		found(columns, 0, 0)
	}
	for _, columns := range []string{
		"state = 4", "state = -1", "version = 0", "attempt = -1", "attempt = 26", "max_attempts = 0", "run_at = due_at - 1", "run_at = 2199023255552",
		"finished_at = due_at", "state = 1", "state = 2, finished_at = NULL", "state = 3, finished_at = -5",
		"state = 2, finished_at = due_at, dedup_key = 'kmeal'",
	} {
		set(right)
		set(columns)
		if got := found(columns, 0, 1); got.FirstInvalid != row.ID || got.Rows != 1 {
			t.Errorf("%s: the first is %s of %d, want %s", columns, got.FirstInvalid, got.Rows, row.ID)
		}
	}
	set(right)
	set("state = 1, finished_at = due_at - 1")
	if got := found("done a millisecond early", 1, 0); got.FirstPremature != row.ID {
		t.Errorf("the first is %s, want %s", got.FirstPremature, row.ID)
	}
}

func stuck(t *testing.T, s *store.Store) {
	inserted(t, s, newTask(t, "ann", time.Hour))
	wantStuck := func(what string, want int64) {
		t.Helper()
		if got := value[int64](t)(s.Stuck(t.Context(), 10*time.Minute)); got != want {
			t.Errorf("%s: %d stuck, want %d", what, got, want)
		}
	}
	inserted(t, s, newTask(t, "bob", time.Hour))
	due := func(ago time.Duration) {
		t.Helper()
		at := value[time.Time](t)(s.Now(t.Context(), nil)).Add(-ago).UnixMilli()
		must(t, exec(s.DB(), "UPDATE duetime_tasks SET due_at = ?, run_at = ?", at, at))
	}
	due(0)
	wantStuck("due just now", 0)
	due(11 * time.Minute)
	wantStuck("for eleven minutes", 2)
	value[bool](t)(s.Pause(t.Context(), s.DB(), "mails", t0, time.Time{}))
	wantStuck("another queue is paused", 2)
	value[bool](t)(s.Pause(t.Context(), s.DB(), "default", t0, time.Time{}))
	wantStuck("its queue is paused", 0)
}

// listBehind lists rows of one moment in pages of two, while rows are added before and after the cursor.
func listBehind(t *testing.T, s *store.Store) {
	var want, got []task.ID
	for range 5 {
		want = append(want, inserted(t, s, newTask(t, "ann", time.Hour))[0].ID)
	}
	slices.SortFunc(want, task.ID.Compare)
	must(t, exec(s.DB(), "UPDATE duetime_tasks SET due_at = 1900000000000"))
	inserted(t, s, newTask(t, "bob", time.Hour))
	f := store.Filter{Limit: 2, Owner: "ann"}
	for range 4 {
		rows := value[[]task.Task](t)(s.List(t.Context(), f))
		for _, row := range rows {
			got = append(got, row.ID)
			f.After = protocol.Cursor{At: row.DueAt, ID: row.ID}
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("listed (-want +got):\n%s", d)
	}
}
