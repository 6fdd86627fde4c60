package store_test

import (
	"context"
	"errors"
	"fmt"
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

// label gives rows labels, name=value each.
func label(t *testing.T, s *store.Store, row task.Task, texts ...string) {
	t.Helper()
	var rows []protocol.LabelRow
	for _, text := range texts {
		name, value, _ := strings.Cut(text, "=")
		rows = append(rows, protocol.LabelRow{Task: row.ID, Name: name, Value: value})
	}
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, s.InsertLabels(ctx, tx, rows)) })
}

func labelsReadBack(t *testing.T, s *store.Store) {
	rows := inserted(t, s, newTasks(t, 3)...)
	label(t, s, rows[0], "city=Zürich 🐈", "tier=gold")
	label(t, s, rows[1], "city=zürich 🐈")
	label(t, s, rows[0], "tier=gold") // once more
	want := map[task.ID]map[string]string{
		rows[0].ID: {"city": "Zürich 🐈", "tier": "gold"}, rows[1].ID: {"city": "zürich 🐈"},
	}
	if d := cmp.Diff(want, value[map[task.ID]map[string]string](t)(s.Labels(t.Context(), ids(rows)))); d != "" {
		t.Errorf("labels (-want +got):\n%s", d)
	}
	var all []protocol.LabelRow
	for i := range 8 * task.MaxPerCall {
		all = append(all, protocol.LabelRow{Task: rows[2].ID, Name: "n", Value: fmt.Sprint(i)})
	}
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, s.InsertLabels(ctx, tx, all)) })
	if n := count(t, s, "SELECT COUNT(*) FROM duetime_labels WHERE name = 'n'"); n != len(all) {
		t.Errorf("%d of %d labels were written", n, len(all))
	}
}

func listByLabels(t *testing.T, s *store.Store) {
	rows := inserted(t, s, newTask(t, "ann", 3*time.Second), newTask(t, "bob", time.Second), newTask(t, "ann", 2*time.Second),
		newTask(t, "cid", 4*time.Second))
	label(t, s, rows[0], "city=a", "tier=gold")
	label(t, s, rows[1], "city=a", "tier=tin")
	label(t, s, rows[2], "city=a", "tier=gold")
	label(t, s, rows[3], "city=b", "tier=gold")
	city := func(f store.Filter, more ...string) store.Filter {
		f.Labels = map[string]string{"city": "a"}
		for _, text := range more {
			name, value, _ := strings.Cut(text, "=")
			f.Labels[name] = value
		}
		return f
	}
	for name, c := range map[string]struct {
		filter store.Filter
		want   []task.ID
	}{
		"one":     {city(store.Filter{}), ids([]task.Task{rows[1], rows[2], rows[0]})},
		"both":    {city(store.Filter{}, "tier=gold"), ids([]task.Task{rows[2], rows[0]})},
		"neither": {city(store.Filter{}, "tier=silver"), []task.ID{}},
		"owner":   {city(store.Filter{Owner: "ann"}, "tier=gold"), ids([]task.Task{rows[2], rows[0]})},
		"limit":   {city(store.Filter{Limit: 2}), ids([]task.Task{rows[1], rows[2]})},
		"due":     {city(store.Filter{DueAfter: t0.Add(2 * time.Second), Kind: "meal.done"}), ids([]task.Task{rows[2], rows[0]})},
		"none of some": {
			store.Filter{Exclude: task.Exclusion{Labels: []string{"city=b", "tier=tin", "tier=silver"}}}, ids([]task.Task{rows[2], rows[0]}),
		},
		"but some": {city(store.Filter{Exclude: task.Exclusion{Labels: []string{"tier=tin"}}}), ids([]task.Task{rows[2], rows[0]})},
		"an owner's but some": {
			store.Filter{Owner: "ann", Exclude: task.Exclusion{Labels: []string{"tier=gold"}}}, []task.ID{},
		},
		"no kind":  {store.Filter{Exclude: task.Exclusion{Kinds: []string{"other", "meal.done"}}}, []task.ID{}},
		"a cursor": {city(store.Filter{After: protocol.Cursor{At: rows[2].DueAt, ID: rows[2].ID}}), ids(rows[:1])},
	} {
		if d := cmp.Diff(c.want, ids(value[[]task.Task](t)(s.List(t.Context(), c.filter)))); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// The labels of a task are deleted with it, and only then: a dead task that was retried meanwhile keeps its own.
func purgeLabels(t *testing.T, s *store.Store) {
	rows := inserted(t, s, newTasks(t, 4)...)
	for _, row := range rows[:3] {
		label(t, s, row, "city=a", "tier=gold")
	}
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		must(t, worldtest.Finish(ctx, s, tx, rows[1:2], t0.Add(time.Second)))
	})
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		must(t, worldtest.Finish(ctx, s, tx, rows[3:], t0.Add(time.Second)))
	})
	dead := transition.Discard(rows[2], errors.New("enough"), t0.Add(time.Second))
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, worldtest.Save(ctx, s, tx, dead)) })
	retry := store.BeforePurge(s, func() {
		must(t, exec(s.DB(), "UPDATE duetime_tasks SET state = 0 WHERE id = ?", dead.ID[:]))
	})
	if n := value[int](t)(retry(t.Context(), t0.Add(time.Hour), 10)); n != 3 {
		t.Errorf("purged %d, want 3", n)
	}
	want := map[task.ID]map[string]string{rows[0].ID: {"city": "a", "tier": "gold"}, dead.ID: {"city": "a", "tier": "gold"}}
	if d := cmp.Diff(want, value[map[task.ID]map[string]string](t)(s.Labels(t.Context(), ids(rows)))); d != "" {
		t.Errorf("labels (-want +got):\n%s", d)
	}
	if left := value[[]task.Task](t)(s.Get(t.Context(), nil, ids(rows))); len(left) != 2 {
		t.Errorf("%d rows are left, want 2", len(left))
	}
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		must(t, worldtest.Finish(ctx, s, tx, rows[:1], t0.Add(time.Second)))
	})
	if n := purged(t, s, t0.Add(time.Hour), 10); n != 1 { // it alone, and it has labels
		t.Errorf("purged %d, want 1", n)
	}
	if n := count(t, s, "SELECT COUNT(*) FROM duetime_labels"); n != 2 {
		t.Errorf("%d labels are left, want 2", n)
	}
}

// An operation by labels comes to the tasks that have them all.
func walkByLabels(t *testing.T, s *store.Store) {
	rows := inserted(t, s, newTasks(t, 20)...)
	var want []task.ID
	for i, row := range rows {
		label(t, s, row, fmt.Sprintf("city=%d", i%2), fmt.Sprintf("tier=%d", i%3))
		if i%6 == 1 {
			want = append(want, row.ID)
		}
	}
	but := task.Exclusion{Kinds: []string{"other"}, Labels: []string{"city=0", "tier=0", "tier=2"}}
	for _, f := range []task.Filter{{}, {Kind: "meal.done"}, {All: true, Exclude: but}} {
		if !f.All {
			f.Labels = map[string]string{"city": "1", "tier": "1"}
		}
		o := operation(t, s, task.Operation{Filter: f})
		for _, size := range []struct{ scan, limit int }{{1, 1}, {7, 3}, {3, 7}, {100, 100}} {
			if d := cmp.Diff(want, walked(t, s, o, size.scan, size.limit)); d != "" {
				t.Errorf("%v, %+v (-want +got):\n%s", f, size, d)
			}
		}
		preview := task.Operation{Verb: task.VerbCancel, Filter: f}
		if n := value[int64](t)(s.CountMatching(t.Context(), preview)); n != int64(len(want)) {
			t.Errorf("%v: %d tasks, want %d", f, n, len(want))
		}
		if got := value[[]task.Task](t)(s.Matching(t.Context(), preview, 10)); !slices.Equal(ids(got), want) {
			t.Errorf("%v: some are %v, want %v", f, ids(got), want)
		}
		read, _, err := s.Operation(t.Context(), nil, o.ID)
		if d := cmp.Diff(o, read); d != "" || err != nil {
			t.Errorf("read back, %v (-want +got):\n%s", err, d)
		}
	}
}

// A list by labels reads the tasks of the first label, by their ids; the purge reads the labels of its tasks alone.
func TestLabelPlans(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{})
	rows := filled(t, s, 3000)
	var labels []protocol.LabelRow
	for i, row := range rows {
		labels = append(labels,
			protocol.LabelRow{Task: row.ID, Name: "city", Value: fmt.Sprint(i % 100)},
			protocol.LabelRow{Task: row.ID, Name: "tier", Value: "gold"})
	}
	steps := func(text string, args []any) (out []string) {
		var plans []plan
		must(t, s.DB().Unsafe().SelectContext(t.Context(), &plans, "EXPLAIN FORMAT=TRADITIONAL "+text, args...))
		for _, p := range plans {
			out = append(out, p.Type.String+" "+p.Key.String)
		}
		return out
	}
	for _, part := range [][]protocol.LabelRow{labels[:8], labels[8:]} { // a scan of 8 labels would be cheap, but waits for locks
		inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, s.InsertLabels(ctx, tx, part)) })
		must(t, exec(s.DB(), "ANALYZE TABLE duetime_labels"))
		want := []string{"range PRIMARY", "ref duetime_labels_task"}
		if d := cmp.Diff(want, steps(store.DeleteLabelledSQL(ids(rows[:4]), t0))); d != "" {
			t.Errorf("a purge after %d labels (-want +got):\n%s", len(part), d)
		}
	}
	if got := steps(store.LabelledSQL(s, ids(rows[:1000]))); !strings.HasPrefix(got[0], "range duetime_labels_task") {
		t.Errorf("a look for labels: %v", got)
	}
	one := store.Filter{Labels: map[string]string{"city": "7"}}
	both := store.Filter{Labels: map[string]string{"city": "7", "tier": "gold"}, Kind: "meal.done", State: new(task.Pending)}
	for _, c := range []struct {
		filter store.Filter
		want   []string
	}{
		{one, []string{"ref PRIMARY", "eq_ref PRIMARY"}},
		{both, []string{"ref PRIMARY", "eq_ref PRIMARY", "eq_ref PRIMARY"}},
		{store.Filter{Labels: map[string]string{"tier": "gold"}, State: new(task.Pending)}, []string{"ref PRIMARY", "eq_ref PRIMARY"}},
	} {
		if d := cmp.Diff(c.want, steps(store.ListSQL(c.filter))); d != "" {
			t.Errorf("%v (-want +got):\n%s", c.filter, d)
		}
	}
	// The owner has fewer tasks than the label.
	owners := store.Filter{Owner: "owner-1", Labels: map[string]string{"tier": "gold"}}
	if got := steps(store.ListSQL(owners)); !strings.HasPrefix(got[0], "ref duetime_tasks_") {
		t.Errorf("an owner's list by a label reads %v", got)
	}
}
