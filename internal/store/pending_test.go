package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// pendingView checks what SQL-CONTRACT.md says of the view's columns, which services rely on.
func pendingView(t *testing.T, s *store.Store) {
	waits := newTask(t, "Zoë 🐈", 123*time.Millisecond, task.Subject("pet 9"), task.Key("k"))
	waits.RunAt = t0.Add(time.Hour)
	ended := newTask(t, "Zoë 🐈", 0)
	inserted(t, s, waits, ended)
	ended, err := transition.Cancel(ended, t0)
	must(t, err)
	must(t, worldtest.Save(t.Context(), s, s.DB(), ended))
	var got []struct {
		ID                          task.ID
		IDText                      string `db:"id_text"`
		Kind, Owner, Subject, Queue string
		DueAt                       string `db:"due_text"`
		RunAt                       string `db:"run_text"`
		DueMs                       int64  `db:"due_ms"`
		RunMs                       int64  `db:"run_ms"`
		Version                     int64
	}
	// A service's DSN may want times as time.Time.
	must(t, s.DB().SelectContext(t.Context(), &got, "SELECT id, id_text, kind, owner, subject, queue, CAST(due_at AS CHAR(30)) AS due_text, "+
		"CAST(run_at AS CHAR(30)) AS run_text, due_ms, run_ms, version FROM duetime_pending WHERE owner = ?", waits.Owner))
	if len(got) != 1 {
		t.Fatalf("the view shows %d tasks, want the pending one", len(got))
	}
	is := got[0]
	want := []any{
		waits.ID, waits.ID.String(), waits.Kind, waits.Owner, "pet 9", waits.Queue, "2027-01-15 08:00:00.123", "2027-01-15 09:00:00.000",
		t0.UnixMilli() + 123, waits.RunAt.UnixMilli(), int64(1),
	}
	if d := cmp.Diff(want, []any{is.ID, is.IDText, is.Kind, is.Owner, is.Subject, is.Queue, is.DueAt, is.RunAt, is.DueMs, is.RunMs, is.Version}); d != "" {
		t.Errorf("the view shows (-want +got):\n%s", d)
	}
}

// A service's query of an owner, or of the tasks that its rows name, reads these tasks alone, by their index.
func TestPendingViewIsMerged(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{})
	meals := filled(t, s, 3000)
	must(t, exec(s.DB(), "CREATE TABLE pets (id INT PRIMARY KEY, owner VARCHAR(64) COLLATE utf8mb4_bin NOT NULL, meal BINARY(16) NOT NULL, KEY (owner))"))
	for i, meal := range meals[:100] {
		must(t, exec(s.DB(), "INSERT INTO pets (id, owner, meal) VALUES (?, ?, ?)", i, meal.Owner, meal.ID[:]))
	}
	must(t, exec(s.DB(), "ANALYZE TABLE duetime_tasks, pets"))
	const join = "SELECT pets.id, p.due_at FROM pets LEFT JOIN duetime_pending AS p ON p.id = pets.meal "
	for query, want := range map[string][]string{
		"SELECT id_text, due_at FROM duetime_pending WHERE owner = 'ann'":                       {"ref duetime_tasks_owner", "ref duetime_tasks_dedup"}, // both begin with the owner
		"SELECT id FROM duetime_pending WHERE owner = 'owner-3' AND run_ms < 1800000010000":     {"range duetime_tasks_owner", "ref duetime_tasks_owner", "ref duetime_tasks_dedup"},
		"SELECT id FROM duetime_pending WHERE run_ms < 1800000010000 ORDER BY run_ms LIMIT 100": {"range duetime_tasks_due"},
		join + "WHERE pets.owner = 'owner-3'":                                                   {"eq_ref PRIMARY"},
		join + "WHERE pets.id = 7":                                                              {"const PRIMARY", "eq_ref PRIMARY"},
	} {
		var steps []plan
		must(t, s.DB().Unsafe().SelectContext(t.Context(), &steps, "EXPLAIN FORMAT=TRADITIONAL "+query))
		var got string
		for _, step := range steps {
			if got = step.Type.String + " " + step.Key.String; step.Select != "SIMPLE" {
				t.Errorf("%s: a step is %s, want the view merged into one query", query, step.Select)
			}
		}
		if !slices.Contains(want, got) {
			t.Errorf("%s: the tasks are read by %q, want %q", query, got, want)
		}
	}
}
