package store_test

import (
	stdcmp "cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/group"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// archived moves what ended before a moment, and returns how many rows that were.
func archived(t *testing.T, s *store.Store, before time.Time) (all int) {
	t.Helper()
	for more := true; more; {
		var n int
		var err error
		n, more, err = s.Archive(t.Context(), before, 2)
		must(t, err)
		all += n
	}
	return all
}

func finished(t *testing.T, s *store.Store, at time.Time, rows ...task.Task) {
	t.Helper()
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, worldtest.Finish(ctx, s, tx, rows, at)) })
}

func cancelledAt(t *testing.T, s *store.Store, at time.Time, row task.Task) {
	t.Helper()
	after, err := transition.Cancel(row, at)
	must(t, err)
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, worldtest.Save(ctx, s, tx, after)) })
}

// What has ended stands in exactly one table, as it was, and everybody who asks for it finds it.
func archive(t *testing.T, s *store.Store) {
	rows := inserted(t, s,
		newTask(t, "ann", 0), newTask(t, "ann", time.Second, task.Subject("cat")), newTask(t, "bob", 0), newTask(t, "bob", time.Hour),
		newTask(t, "cid", 0, task.Once("only")), newTask(t, "cid", 0), newTask(t, "dan", 0, task.Key("k")))
	label(t, s, rows[0], "city=a")
	label(t, s, rows[3], "city=a")
	dead := transition.Discard(rows[2], errors.New("enough"), t0.Add(time.Minute))
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, worldtest.Save(ctx, s, tx, dead)) })
	finished(t, s, t0.Add(time.Minute), rows[0], rows[4], rows[6])
	cancelledAt(t, s, t0.Add(2*time.Minute), rows[1])
	finished(t, s, t0.Add(time.Hour), rows[5])
	before := value[[]task.Task](t)(s.Get(t.Context(), nil, ids(rows)))

	if n := archived(t, s, t0.Add(10*time.Minute)); n != 3 {
		t.Errorf("%d rows have moved, want those that were done or cancelled by then without a key that holds", n)
	}
	if n := archived(t, s, t0.Add(10*time.Minute)); n != 0 {
		t.Errorf("%d rows have moved once more", n)
	}
	var moved []string
	must(t, s.DB().Select(&moved, "SELECT owner FROM duetime_ended ORDER BY owner, due_at"))
	if d := cmp.Diff([]string{"ann", "ann", "dan"}, moved); d != "" {
		t.Errorf("moved (-want +got):\n%s", d)
	}
	if n := count(t, s, "SELECT COUNT(*) FROM duetime_tasks"); n != 4 {
		t.Errorf("%d rows stand where they were, want 4", n)
	}

	for name, read := range map[string]func(ctx context.Context, tx *sqlx.Tx) ([]task.Task, error){
		"Get":         func(ctx context.Context, _ *sqlx.Tx) ([]task.Task, error) { return s.Get(ctx, nil, ids(rows)) },
		"Get in a tx": func(ctx context.Context, tx *sqlx.Tx) ([]task.Task, error) { return s.Get(ctx, tx, ids(rows)) },
		"Lock":        func(ctx context.Context, tx *sqlx.Tx) ([]task.Task, error) { return s.Lock(ctx, tx, ids(rows)) },
		"LockFree": func(ctx context.Context, tx *sqlx.Tx) ([]task.Task, error) {
			got, now, err := s.LockFree(ctx, tx, ids(rows))
			if now.Before(time.Now().Add(-time.Hour)) {
				t.Errorf("LockFree: it is %v", now)
			}
			return got, err
		},
		"LockToRun": func(ctx context.Context, tx *sqlx.Tx) ([]task.Task, error) {
			got, _, _, err := s.LockToRun(ctx, tx, ids(rows))
			return got, err
		},
	} {
		inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
			got, err := read(ctx, tx)
			must(t, err)
			if d := cmp.Diff(before, got); d != "" {
				t.Errorf("%s (-before +after):\n%s", name, d)
			}
		})
	}
	if got := value[[]task.Task](t)(s.Entries(t.Context(), ids(rows))); len(got) != len(rows) {
		t.Errorf("%d entries, want %d", len(got), len(rows))
	}
	changed := pages(t, func(after protocol.Cursor) ([]task.Task, error) {
		return s.Changed(t.Context(), t0, t0.Add(2*time.Hour), after, 3)
	}, func(r task.Task) time.Time { return r.UpdatedAt })
	byChange := slices.Clone(before)
	slices.SortFunc(byChange, func(a, b task.Task) int { return stdcmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), a.ID.Compare(b.ID)) })
	if d := cmp.Diff(ids(byChange), changed); d != "" {
		t.Errorf("changed (-want +got):\n%s", d)
	}
	done := task.Done
	for name, c := range map[string]struct {
		store.Filter
		want []int
	}{
		"all":              {store.Filter{}, []int{0, 2, 4, 5, 6, 1, 3}},
		"a page":           {store.Filter{Limit: 6, After: protocol.Cursor{At: t0, ID: task.ID{}}}, []int{0, 2, 4, 5, 6, 1}},
		"of an owner":      {store.Filter{Owner: "ann"}, []int{0, 1}},
		"of a subject":     {store.Filter{Subject: "cat"}, []int{1}},
		"of a label":       {store.Filter{Labels: map[string]string{"city": "a"}}, []int{0, 3}},
		"done":             {store.Filter{State: &done}, []int{0, 4, 5, 6}},
		"but for a label":  {store.Filter{Exclude: task.Exclusion{Labels: []string{"city=a"}}, Owner: "ann"}, []int{1}},
		"due from a while": {store.Filter{DueAfter: t0.Add(time.Second)}, []int{1, 3}},
	} {
		var want []task.ID
		for _, i := range c.want {
			want = append(want, rows[i].ID)
		}
		got := ids(value[[]task.Task](t)(s.List(t.Context(), c.Filter)))
		slices.SortFunc(got, task.ID.Compare)
		slices.SortFunc(want, task.ID.Compare)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("list %s (-want +got):\n%s", name, d)
		}
	}
	wantStates := map[task.State]int64{task.Pending: 1, task.Done: 4, task.Cancelled: 1, task.Dead: 1}
	if d := cmp.Diff(wantStates, value[map[task.State]int64](t)(s.Counts(t.Context()))); d != "" {
		t.Errorf("counts (-want +got):\n%s", d)
	}
	if d := cmp.Diff(wantStates, value[store.Live](t)(s.Live(t.Context(), time.Minute)).States); d != "" {
		t.Errorf("live counts (-want +got):\n%s", d)
	}
	if st := value[store.Stats](t)(s.Stats(t.Context(), 0)); st.Fired != 4 || st.Kinds[rows[0].Kind] != 7 || st.LagMax != time.Hour {
		t.Errorf("stats %+v, want 4 fired of 7, the slowest after an hour", st)
	}
	if a := value[store.RowAudit](t)(s.AuditRows(t.Context())); a.Rows != 7 || a.Premature != 0 || a.Invalid != 0 {
		t.Errorf("audit %+v, want 7 sound rows", a)
	}
	must(t, exec(s.DB(), "UPDATE duetime_ended SET due_at = ?, run_at = ? WHERE owner = 'dan'", t0.Add(time.Hour).UnixMilli(), t0.Add(time.Hour).UnixMilli()))
	if a := value[store.RowAudit](t)(s.AuditRows(t.Context())); a.Premature != 1 || a.FirstPremature != rows[6].ID {
		t.Errorf("audit %+v, want one that was done before it was due", a)
	}
	if kinds := value[[]string](t)(s.Kinds(t.Context(), 10)); !slices.Equal(kinds, []string{rows[0].Kind}) {
		t.Errorf("kinds %v", kinds)
	}
}

// purgedEnded deletes up to limit rows, and returns their number.
func purgedEnded(t *testing.T, s *store.Store, before time.Time, limit int) int {
	t.Helper()
	n, more, gone, err := s.Purge(t.Context(), protocol.Purgeable{}, before, limit)
	must(t, err)
	if more == gone.Equal(before) {
		t.Errorf("%d of at most %d were purged, up to %v, more: %v; the limit is %v", n, limit, gone, more, before)
	}
	return n
}

// Ended rows of the two tables are deleted alike, with their labels.
func purgeArchived(t *testing.T, s *store.Store) {
	rows := inserted(t, s, newTasks(t, 6)...)
	label(t, s, rows[0], "city=a")
	label(t, s, rows[5], "city=a")
	finished(t, s, t0.Add(time.Minute), rows[:3]...)
	cancelledAt(t, s, t0.Add(time.Minute), rows[3])
	finished(t, s, t0.Add(time.Hour), rows[4:]...)
	if n := archived(t, s, t0.Add(2*time.Hour)); n != 6 {
		t.Fatalf("%d rows have moved, want all", n)
	}
	for _, want := range []int{3, 1, 0} { // two that are done and one that was cancelled, and what is left
		if got := purgedEnded(t, s, t0.Add(time.Hour), 2); got != want {
			t.Errorf("purged %d, want %d", got, want)
		}
	}
	// One that another process has moved behind the back of the purge is found with the next lap.
	must(t, exec(s.DB(), "UPDATE duetime_ended SET finished_at = ? WHERE id = ?", t0.Add(time.Minute).UnixMilli(), rows[4].ID[:]))
	if got := purgedEnded(t, s, t0.Add(time.Hour), 2); got != 0 {
		t.Errorf("purged %d, want none before the next lap", got)
	}
	if got := purgedEnded(t, s, t0.Add(25*time.Hour), 3); got != 2 {
		t.Errorf("purged %d, want the two that are left", got)
	}
	if n := count(t, s, "SELECT COUNT(*) FROM duetime_labels"); n != 0 {
		t.Errorf("%d labels are left", n)
	}
}

// A spec that is scheduled again after its task has ended and left is that task.
func insertAgain(t *testing.T, s *store.Store) {
	specs := []task.Task{newTask(t, "ann", 0), newTask(t, "ann", 0, task.Key("k")), newTask(t, "bob", 0)}
	rows := inserted(t, s, specs...)
	finished(t, s, t0.Add(time.Second), rows[:2]...)
	archived(t, s, t0.Add(time.Hour))
	fresh := newTask(t, "cid", 0)
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		got, err := s.InsertUnlessEnded(ctx, tx, append(slices.Clone(specs), fresh), time.Now().Add(time.Hour))
		must(t, err)
		for i, want := range []task.State{task.Done, task.Done, task.Pending, task.Pending} {
			if got[i].ID != append(slices.Clone(specs), fresh)[i].ID || got[i].State != want {
				t.Errorf("row %d: %s, %s; want its own, %s", i, got[i].ID, got[i].State, want)
			}
		}
	})
	if n := count(t, s, "SELECT COUNT(*) FROM duetime_tasks"); n != 2 {
		t.Errorf("%d rows stand, want those that are pending", n)
	}
	// Another program may insert the id once more: no worker runs it, and once it has ended the two rows don't meet.
	must(t, exec(s.DB(), "INSERT INTO duetime_tasks (id, kind, owner, payload, due_at, run_at, created_at, updated_at)"+
		" VALUES (?, 'meal', 'ann', '1', 1, 1, 1, 1)", rows[0].ID[:]))
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		want := map[task.ID]protocol.Bar{rows[0].ID: protocol.IDEnded}
		locked, bars, _, err := s.LockToRun(ctx, tx, ids(rows))
		if must(t, err); len(locked) != 3 || !maps.Equal(bars, want) {
			t.Errorf("%d rows to run, barred %v; want %v", len(locked), bars, want)
		}
		due, err := s.LockToRunNow(ctx, tx, rows[0].ID)
		if must(t, err); !maps.Equal(due.Bars, want) {
			t.Errorf("to run at once: barred %v, want %v", due.Bars, want)
		}
		if due, err = s.LockToRunNow(ctx, tx, rows[1].ID); err != nil || len(due.Rows) != 1 || due.Rows[0].State != task.Done {
			t.Errorf("one that has left, to run at once: %+v, %v", due, err)
		}
	})
	must(t, exec(s.DB(), "UPDATE duetime_tasks SET state = 1, finished_at = 1 WHERE id = ?", rows[0].ID[:]))
	if n := archived(t, s, t0.Add(time.Hour)); n != 0 {
		t.Errorf("%d rows have moved to where their ids stand", n)
	}
	if got := value[[]task.Task](t)(s.Get(t.Context(), nil, ids(rows[:1]))); len(got) != 1 {
		t.Errorf("%d rows of the id, want one", len(got))
	}
}

// Members of a group count wherever their rows are.
func groupOfArchived(t *testing.T, s *store.Store) {
	rows := newTasks(t, 4)
	for i := range rows {
		rows[i].Group = "march"
	}
	rows = inserted(t, s, rows...)
	for _, row := range rows {
		label(t, s, row, protocol.GroupLabel+"=march")
	}
	finished(t, s, t0.Add(time.Second), rows[:2]...)
	cancelledAt(t, s, t0.Add(time.Second), rows[2])
	archived(t, s, t0.Add(time.Hour))
	c, _, err := s.CountMembers(t.Context(), "march", task.ID{}, 10)
	must(t, err)
	if want := (group.Part{Open: 1, Done: 2, Cancelled: 1}); c.Rows != want {
		t.Errorf("rows %+v, want %+v", c.Rows, want)
	}
}

// A row that somebody has locked stays, and keeps nobody waiting; the next lap takes it.
func TestArchiveWaitsForNobody(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{LockWait: time.Second})
	rows := inserted(t, s, newTasks(t, 3)...)
	finished(t, s, t0.Add(time.Second), rows...)
	holder := begin(t, s)
	value[[]task.Task](t)(s.Lock(t.Context(), holder, ids(rows[1:2])))
	if n := archived(t, s, t0.Add(time.Minute)); n != 2 {
		t.Errorf("%d rows have moved beside one that is locked, want 2", n)
	}
	must(t, holder.Rollback())
	if n := archived(t, s, t0.Add(25*time.Hour)); n != 1 {
		t.Errorf("%d rows have moved with the next lap, want the one that is left", n)
	}
}

// The two tables have the same columns, of the same types.
func TestEndedHasTheColumnsOfTasks(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{})
	columns := func(table string) (all []string) {
		must(t, s.DB().Select(&all, "SELECT CONCAT(column_name, ' ', column_type) FROM information_schema.columns"+
			" WHERE table_schema = DATABASE() AND table_name = ? ORDER BY 1", table))
		return all
	}
	if d := cmp.Diff(columns("duetime_tasks"), columns("duetime_ended")); d != "" {
		t.Errorf("columns (-tasks +ended):\n%s", d)
	}
}

// What is read of ended tasks is read by an index, without sorting, however many there are.
func TestPlansOfEnded(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{})
	rows := filled(t, s, 3000)
	must(t, exec(s.DB(), "UPDATE duetime_tasks SET state = 1, version = 2, finished_at = due_at, updated_at = due_at"))
	for more := true; more; {
		var err error
		_, more, err = s.Archive(t.Context(), t0.Add(time.Hour), 1000)
		must(t, err)
	}
	must(t, exec(s.DB(), "ANALYZE TABLE duetime_tasks, duetime_ended"))
	e := &explainer{DB: s.DB()}
	if got := value[[]task.Task](t)(s.Get(t.Context(), e, ids(rows[:100]))); len(got) != 100 {
		t.Errorf("%d of 100 rows", len(got))
	}
	e.plans = e.plans[1:] // of duetime_tasks
	e.check(t, "by id", "duetime_ended_id")
	from, end := protocol.Cursor{At: t0.Add(time.Minute)}, protocol.Cursor{At: t0.Add(30 * time.Minute), ID: task.ID{1}}
	_, all := store.PurgeSQL(store.MySQL, protocol.Purgeable{}, t0.Add(time.Hour), from, protocol.Cursor{}, 500)
	ends, some := store.PurgeSQL(store.MySQL, protocol.Purgeable{Only: []string{"ping"}}, t0.Add(time.Hour), from, end, 500)
	for name, statements := range map[string][]store.Statement{
		"purge": {all[1], ends[1], some[1]},
		"walk":  store.WalkEndedSQL(protocol.Cursor{At: t0.Add(20 * time.Minute), ID: task.ID{1}}, protocol.Cursor{At: t0.Add(30 * time.Minute), ID: task.ID{1}}),
	} {
		for _, of := range statements {
			e := &explainer{DB: s.DB()}
			must(t, exec(e, of.Text, of.Args...))
			e.check(t, name, "PRIMARY")
		}
	}
}
