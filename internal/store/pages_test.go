package store_test

import (
	"context"
	"math"
	"slices"
	"strings"
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

func ownerRows(t *testing.T, s *store.Store) {
	late, early := newTask(t, "ann", time.Hour), newTask(t, "ann", time.Minute)
	other := newTask(t, "ann", time.Second)
	other.Kind = "other"
	done := newTask(t, "ann", 0)
	rows := inserted(t, s, late, early, other, done, newTask(t, "Ann", 0), newTask(t, "bob", 0))
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		must(t, worldtest.Finish(ctx, s, tx, rows[3:4], t0))
		all, now, err := s.LockOwner(ctx, tx, "ann", "")
		must(t, err)
		if since := value[time.Time](t)(s.Now(ctx, tx)).Sub(now); since < 0 || since > time.Minute {
			t.Errorf("LockOwner's time is %v ago, want that of its first statement", since)
		}
		if d := cmp.Diff([]task.ID{late.ID, early.ID, other.ID}, ids(all)); d != "" {
			t.Errorf("LockOwner by id (-want +got):\n%s", d)
		}
		one, _, err := s.LockOwner(ctx, tx, "ann", "other")
		must(t, err)
		if d := cmp.Diff([]task.ID{other.ID}, ids(one)); d != "" {
			t.Errorf("LockOwner of a kind (-want +got):\n%s", d)
		}
	})
	listed := value[[]task.Task](t)(s.ListOwner(t.Context(), nil, "ann", ""))
	if d := cmp.Diff([]task.ID{other.ID, early.ID, late.ID}, ids(listed)); d != "" {
		t.Errorf("ListOwner by time (-want +got):\n%s", d)
	}
	if got := value[[]task.Task](t)(s.ListOwner(t.Context(), nil, "nobody", "")); len(got) != 0 {
		t.Errorf("ListOwner of nobody: %v", got)
	}
}

// pages reads all pages of three rows and checks that each page but the last is full.
func pages(t *testing.T, read func(after protocol.Cursor) ([]task.Task, error), at func(task.Task) time.Time) []task.ID {
	t.Helper()
	var all []task.ID
	var after protocol.Cursor
	for {
		page := value[[]task.Task](t)(read(after))
		for _, row := range page {
			if len(row.Payload) != 0 {
				t.Fatalf("a sweep read the payload %s", row.Payload)
			}
		}
		all = append(all, ids(page)...)
		if len(page) < 3 {
			return all
		}
		after = protocol.Cursor{At: at(page[2]), ID: page[2].ID}
	}
}

func pagesOfPending(t *testing.T, s *store.Store) {
	var rows []task.Task
	for _, in := range []int{0, 1, 1, 1, 1, 1, 2, 2, 3, 4, 5} {
		rows = append(rows, newTask(t, "ann", time.Duration(in)*time.Second))
	}
	rows = inserted(t, s, rows...)
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, worldtest.Finish(ctx, s, tx, rows[2:3], t0)) })
	got := pages(t, func(after protocol.Cursor) ([]task.Task, error) {
		return s.Pending(t.Context(), t0.Add(time.Second), t0.Add(5*time.Second), after, 3)
	}, func(r task.Task) time.Time { return r.RunAt })
	if d := cmp.Diff(ids(slices.Delete(slices.Clone(rows[1:10]), 1, 2)), got); d != "" {
		t.Errorf("Pending (-want +got):\n%s", d)
	}
}

func pagesExcept(t *testing.T, s *store.Store) {
	var rows []task.Task
	for i, queue := range []string{"a", "a", "a", "b", "c", "a", "a", "b", "c", "b", "a"} {
		one := newTask(t, "ann", time.Duration(i/2)*time.Second) // two rows for each second
		one.Queue = queue
		rows = append(rows, one)
	}
	rows = inserted(t, s, rows...)
	for except, want := range map[string][]int{"": {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, "a": {3, 4, 7, 8, 9}, "a b": {4, 8}, "a b c": nil, "other": {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}} {
		var got, all []task.ID
		var after protocol.Cursor
		for pages := 1; ; pages++ {
			page, next, err := s.PendingExcept(t.Context(), strings.Fields(except), t0, t0.Add(5*time.Second), after, 3)
			must(t, err)
			got = append(got, ids(page)...)
			if next == (protocol.Cursor{}) {
				if pages != 4 {
					t.Errorf("but for %q: %d pages, want 3 of three rows and one of the last", except, pages)
				}
				break
			}
			after = next
		}
		for _, i := range want {
			all = append(all, rows[i].ID)
		}
		if d := cmp.Diff(all, got); d != "" {
			t.Errorf("but for %q (-want +got):\n%s", except, d)
		}
	}
}

func pagesOfChanged(t *testing.T, s *store.Store) {
	rows := newTasks(t, 12)
	for i := range rows {
		rows[i].UpdatedAt = t0.Add(time.Duration(i/5) * time.Second)
	}
	rows = inserted(t, s, rows...)
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		must(t, worldtest.Finish(ctx, s, tx, rows[:1], t0.Add(2*time.Second)))
	})
	got := pages(t, func(after protocol.Cursor) ([]task.Task, error) {
		return s.Changed(t.Context(), t0, t0.Add(3*time.Second), after, 3)
	}, func(r task.Task) time.Time { return r.UpdatedAt })
	want := append(ids(rows[1:10]), append(ids(rows[:1]), ids(rows[10:])...)...)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("Changed (-want +got):\n%s", d)
	}
}

// purged deletes up to limit rows, and returns their number.
func purged(t *testing.T, s *store.Store, before time.Time, limit int) int {
	t.Helper()
	n, _, _, err := s.Purge(t.Context(), protocol.Purgeable{}, before, limit)
	must(t, err)
	return n
}

func purge(t *testing.T, s *store.Store) {
	rows := inserted(t, s, newTasks(t, 10)...)
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		must(t, worldtest.Finish(ctx, s, tx, rows[:5], t0.Add(time.Second)))
		must(t, worldtest.Finish(ctx, s, tx, rows[5:7], t0.Add(time.Hour)))
	})
	for _, want := range []int{3, 2, 0} {
		if got := purged(t, s, t0.Add(time.Hour), 3); got != want {
			t.Errorf("purged %d, want %d", got, want)
		}
	}
	// A long transaction commits a row late, with a time that a purge has already passed.
	late := inserted(t, s, newTask(t, "ann", 0))
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		must(t, worldtest.Finish(ctx, s, tx, late, t0.Add(55*time.Minute)))
	})
	if got := purged(t, s, t0.Add(time.Hour+time.Minute), 3); got != 3 {
		t.Errorf("purged %d, want the late one and the two of the hour", got)
	}
	if got := value[[]task.Task](t)(s.Get(t.Context(), nil, ids(rows))); len(got) != 3 {
		t.Errorf("%d rows left, want the 3 pending ones", len(got))
	}

	// In a round of purges each goes on where the one before stopped, so that what is deleted is not read again and again. The
	// next round looks back.
	many := inserted(t, s, newTasks(t, 6)...)
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		must(t, worldtest.Finish(ctx, s, tx, many[:4], t0.Add(2*time.Hour)))
		must(t, worldtest.Finish(ctx, s, tx, many[4:5], t0.Add(2*time.Hour+time.Second)))
	})
	end := t0.Add(2*time.Hour + time.Minute)
	if got := purged(t, s, end, 4); got != 4 {
		t.Errorf("purged %d, want 4", got)
	}
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		must(t, worldtest.Finish(ctx, s, tx, many[5:], t0.Add(time.Hour+55*time.Minute)))
	})
	for _, want := range []int{1, 1, 0} { // the one behind; then the late one
		if got := purged(t, s, end, 4); got != want {
			t.Errorf("purged %d, want %d", got, want)
		}
	}
}

// Old pending rows that come before the finished ones are examined by pages. A page is examined until it has no finished row.
func purgeBehindPending(t *testing.T, s *store.Store) {
	store.SetPurgeScan(s, 4)
	rows := newTasks(t, 14)
	for i := range rows {
		rows[i].UpdatedAt = t0.Add(time.Duration(i) * time.Second)
	}
	rows = inserted(t, s, rows...)
	finish := func(of ...int) {
		for _, i := range of {
			inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
				must(t, worldtest.Finish(ctx, s, tx, rows[i:i+1], rows[i].UpdatedAt))
			})
		}
	}
	type answer struct {
		n    int
		more bool
		gone int // the row before which none is left, as far as is known; -1: the end
	}
	before := t0.Add(13*time.Second + 500*time.Millisecond)
	expect := func(round string, want ...answer) {
		t.Helper()
		for call, w := range want {
			n, more, gone, err := s.Purge(t.Context(), protocol.Purgeable{}, before, 2)
			must(t, err)
			at := before
			if w.gone >= 0 {
				at = rows[w.gone].UpdatedAt
			}
			if n != w.n || more != w.more || !gone.Equal(at) {
				t.Errorf("%s, call %d: %d rows, more: %v, gone before %v; want %d, %v, %v",
					round, call, n, more, gone.Sub(t0), w.n, w.more, at.Sub(t0))
			}
		}
	}
	finish(9, 10, 11, 12)
	// A lap begins at the oldest row, where there are pending ones: that is not being behind.
	expect("four finished ones behind nine", answer{0, true, -1}, answer{0, true, -1}, answer{2, true, 10},
		answer{1, true, 11}, answer{1, false, -1})
	finish(2, 3)
	expect("as many as a call deletes at a page's end", answer{2, true, 3}, answer{0, true, 7}, answer{0, false, -1})
	expect("nothing finished", answer{0, true, -1}, answer{0, true, -1}, answer{0, false, -1})
	if left := value[[]task.Task](t)(s.Get(t.Context(), nil, ids(rows))); len(left) != 8 {
		t.Errorf("%d rows left, want the 8 pending ones", len(left))
	}
}

// A purge examines its page in the order of the index, and finds the page's end in the index alone.
func TestPlanOfAPurge(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{})
	at := func(n int) protocol.Cursor {
		return protocol.Cursor{At: t0.Add(time.Duration(n) * time.Second), ID: task.ID{1}}
	}
	rows := newTasks(t, 3000)
	for i := range rows {
		rows[i].UpdatedAt = at(i).At
	}
	for part := range slices.Chunk(rows, 1000) {
		inserted(t, s, part...)
	}
	must(t, exec(s.DB(), "ANALYZE TABLE duetime_tasks"))
	for name, after := range map[string]protocol.Cursor{"of a lap": {}, "in the middle": at(2000)} {
		ends, ofRows := store.PurgeSQL(store.MySQL, protocol.Purgeable{}, at(2800).At, after, at(2100), 500)
		end, page := ends[0], ofRows[0]
		e := &explainer{DB: s.DB()}
		must(t, exec(e, end.Text, end.Args...))
		e.check(t, name+": end", "duetime_tasks_updated")
		for _, p := range e.plans {
			if !strings.Contains(p.Extra.String, "Using index") || strings.Contains(p.Extra.String, "Using index condition") {
				t.Errorf("%s: the end looks up rows: %v", name, p)
			}
		}
		e.plans = e.plans[:0]
		must(t, exec(e, page.Text, page.Args...))
		e.check(t, name+": page", "duetime_tasks_updated")
	}
}

// SQLite reads a page from its cursor to its end, and sorts nothing.
func TestSQLitePlanOfAPurge(t *testing.T) {
	t.Parallel()
	s := openSQLite(t)
	at := func(n int) protocol.Cursor {
		return protocol.Cursor{At: t0.Add(time.Duration(n) * time.Second), ID: task.ID{1}}
	}
	ends, ofRows := store.PurgeSQL(store.SQLite, protocol.Purgeable{}, at(4).At, at(1), at(2), 500)
	end, page := ends[0], ofRows[0]
	for _, c := range []struct {
		store.Statement
		want string
	}{
		{end, "SEARCH duetime_tasks USING COVERING INDEX duetime_tasks_updated (updated_at>? AND updated_at<?)"},
		{page, "SEARCH duetime_tasks USING INDEX duetime_tasks_updated (updated_at>? AND updated_at<?)"},
	} {
		var steps []struct{ Detail string }
		must(t, s.DB().Unsafe().SelectContext(t.Context(), &steps, "EXPLAIN QUERY PLAN "+c.Text, c.Args...))
		if len(steps) != 1 || steps[0].Detail != c.want {
			t.Errorf("plan %v, want %s", steps, c.want)
		}
	}
	if upTo := at(2).At.UnixMilli() + 1; !slices.Contains(page.Args, any(upTo)) {
		t.Errorf("the page has no bound at %d, its end: %v", upTo, page.Args)
	}
}

// The row of a tick that ended ahead of it stays until the tick has passed: its key keeps the tick from being made once more.
func purgeTicks(t *testing.T, s *store.Store) {
	_, tick := transition.BeginRecurrence(newRecurrence(t, "ann", "meals"), t0)
	_, at, _ := tick.Tick()
	rows := inserted(t, s, tick, newTask(t, "ann", 0, task.Once("r")), newTask(t, "bob", 0))
	for i := range rows { // the tick's row first
		inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
			must(t, worldtest.Finish(ctx, s, tx, rows[i:i+1], t0.Add(time.Duration(i)*time.Second)))
		})
	}
	for _, c := range []struct {
		before time.Time
		want   int
	}{
		{t0.Add(time.Minute), 1},
		{t0.Add(time.Minute), 1},
		{at, 0},
		{t0.Add(49 * time.Hour), 1},
		{t0.Add(49 * time.Hour), 0},
	} {
		if got := purged(t, s, c.before, 1); got != c.want {
			t.Errorf("before %v: purged %d, want %d", c.before, got, c.want)
		}
	}
}

func list(t *testing.T, s *store.Store) {
	rows := inserted(t, s, newTask(t, "ann", 3*time.Second), newTask(t, "bob", time.Second), newTask(t, "ann", 2*time.Second))
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, worldtest.Finish(ctx, s, tx, rows[:1], t0)) })
	done := task.Done
	for name, c := range map[string]struct {
		filter store.Filter
		want   []task.ID
	}{
		"all":    {store.Filter{}, []task.ID{rows[1].ID, rows[2].ID, rows[0].ID}},
		"limit":  {store.Filter{Limit: 1}, []task.ID{rows[1].ID}},
		"owner":  {store.Filter{Owner: "ann"}, []task.ID{rows[2].ID, rows[0].ID}},
		"state":  {store.Filter{State: &done}, []task.ID{rows[0].ID}},
		"kind":   {store.Filter{Kind: "other"}, []task.ID{}},
		"before": {store.Filter{DueBefore: t0.Add(2 * time.Second), Kind: "meal.done"}, []task.ID{rows[1].ID}},
	} {
		if d := cmp.Diff(c.want, ids(value[[]task.Task](t)(s.List(t.Context(), c.filter)))); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func stats(t *testing.T, s *store.Store) {
	if got := value[store.Stats](t)(s.Stats(t.Context(), 0)); got.LagMax != 0 || got.States["dead"] != 0 || len(got.States) != 4 {
		t.Errorf("stats of an empty table: %+v", got)
	}
	rows := newTasks(t, 203)
	for i := range rows {
		rows[i].DueAt = t0.Add(-time.Hour) // so that lag counts from created_at
	}
	rows = inserted(t, s, rows...)
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		for i := range rows[:200] {
			must(t, worldtest.Finish(ctx, s, tx, rows[i:i+1], t0.Add(time.Duration(i+1)*time.Millisecond)))
		}
		must(t, worldtest.Save(ctx, s, tx, value[task.Task](t)(transition.Cancel(rows[200], t0))))
	})
	want := store.Stats{
		States: map[string]int64{"pending": 2, "done": 200, "cancelled": 1, "dead": 0},
		Kinds:  map[string]int64{"meal.done": 203}, Fired: 200,
		LagP50: 100 * time.Millisecond, LagP99: 198 * time.Millisecond, LagMax: 200 * time.Millisecond,
	}
	for _, window := range []time.Duration{0, time.Hour} {
		if d := cmp.Diff(want, value[store.Stats](t)(s.Stats(t.Context(), window))); d != "" {
			t.Errorf("stats of the last %v (-want +got):\n%s", window, d)
		}
	}
	for _, row := range rows[100:] { // out of the window
		must(t, exec(s.DB(), s.DB().Rebind("UPDATE duetime_tasks SET updated_at = 1 WHERE id = ?"), row.ID[:]))
	}
	want.Kinds["meal.done"], want.Fired = 100, 100
	want.LagP50, want.LagP99, want.LagMax = 50*time.Millisecond, 99*time.Millisecond, 100*time.Millisecond
	if d := cmp.Diff(want, value[store.Stats](t)(s.Stats(t.Context(), time.Hour))); d != "" {
		t.Errorf("stats without what has left the window (-want +got):\n%s", d)
	}
}

func overdue(t *testing.T, s *store.Store) {
	rows := newTasks(t, 3)
	now := value[time.Time](t)(s.Now(t.Context(), nil))
	rows[0].RunAt, rows[1].RunAt, rows[2].RunAt = now.Add(-time.Hour), now.Add(-time.Hour), now.Add(-50*time.Minute)
	rows = inserted(t, s, rows...)
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, worldtest.Finish(ctx, s, tx, rows[:1], now)) })
	if got := value[int64](t)(s.Overdue(t.Context(), 55*time.Minute)); got != 1 {
		t.Errorf("overdue %d, want 1", got)
	}
}

// Rows of other programs may be due at any time that fits the column.
func TestPendingReadsEveryTime(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *store.Store) {
		var want []task.ID
		for _, ms := range []int64{-1 << 62, -1 << 47, -1, 0, 1 << 41, 1 << 62} {
			row := inserted(t, s, newTask(t, "ann", 0))[0]
			_, err := s.DB().ExecContext(t.Context(), "UPDATE duetime_tasks SET due_at = ?, run_at = ? WHERE id = ?", ms, ms, row.ID[:])
			must(t, err)
			want = append(want, row.ID)
		}
		var got []task.ID
		var after protocol.Cursor
		for range len(want) + 1 {
			page := value[[]task.Task](t)(s.Pending(t.Context(), time.Time{}, time.UnixMilli(math.MaxInt64), after, 2))
			got = append(got, ids(page)...)
			if len(page) < 2 {
				break
			}
			after = protocol.Cursor{At: page[1].RunAt, ID: page[1].ID}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}
