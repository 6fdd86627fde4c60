package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/group"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// newGroup writes a group whose first parts have so many open members.
func newGroup(t testing.TB, s *store.Store, name string, open ...int) group.Row {
	t.Helper()
	g := group.Row{Group: task.Group{Name: name, FollowerID: task.NewID(), CreatedAt: t0}, Follower: []byte(`{"kind":"k","owner":"o"}`), OpenParts: 1}
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		if value[bool](t)(s.InsertGroup(ctx, tx, g)) {
			t.Errorf("group %s is there already", name)
		}
		var parts []group.Part
		for i, n := range open {
			parts = append(parts, group.Part{Number: i + 1, Open: n})
		}
		must(t, s.SaveParts(ctx, tx, name, parts, t0))
	})
	return g
}

func groupsReadBack(t *testing.T, s *store.Store) {
	g := newGroup(t, s, "g", 3, 4)
	newGroup(t, s, "empty")
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		if !value[bool](t)(s.InsertGroup(ctx, tx, g)) {
			t.Error("a name is given twice")
		}
		got, found, err := s.LockGroup(ctx, tx, "g")
		must(t, err)
		if d := cmp.Diff(g, got); d != "" || !found {
			t.Errorf("row (-want +got):\n%s", d)
		}
		if _, found, err = s.GetGroup(ctx, tx, "none"); found || err != nil {
			t.Errorf("a group that is not there: %v, %v", found, err)
		}
		p, found, err := s.LockFreePart(ctx, tx, "g", 1, 4)
		must(t, err)
		if want := (group.Part{Number: 2, Open: 4}); p != want || !found {
			t.Errorf("the part with 4 open members is %+v, want %+v", p, want)
		}
		if _, found, err = s.LockFreePart(ctx, tx, "g", 1, 5); found || err != nil {
			t.Errorf("a part with 5 open members: %v, %v", found, err)
		}
		must(t, s.SaveParts(ctx, tx, "g", []group.Part{{Number: 2, Open: 1, Done: 1, Dead: 2, Cancelled: -1}}, t0))
		parts := value[[]group.Part](t)(s.LockParts(ctx, tx, "g"))
		if want := (group.Part{Open: 4, Done: 1, Dead: 2, Cancelled: -1}); len(parts) != group.Parts || group.SumOf(parts) != want {
			t.Errorf("parts are %+v, want %d with the sum %+v", parts, group.Parts, want)
		}
	})
	shown, found, err := s.Group(t.Context(), "g")
	must(t, err)
	want := task.Group{
		Name: "g", Open: 4, Done: 1, Dead: 2, Cancelled: -1, FollowerID: g.FollowerID, FollowerKind: "k", FollowerOwner: "o", CreatedAt: t0,
	}
	if d := cmp.Diff(want, shown); d != "" || !found {
		t.Errorf("group (-want +got):\n%s", d)
	}
	g.Sealed, g.Done, g.EndedAt, g.Note, g.OpenParts, g.CheckedAt = true, 7, t0.Add(time.Second), "no", 0, t0
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, s.SaveGroup(ctx, tx, g)) })
	if shown, _, err = s.Group(t.Context(), "g"); err != nil || shown.Done != 7 || shown.Open != 0 || !shown.EndedAt.Equal(g.EndedAt) || shown.Note != "no" {
		t.Errorf("group that has ended is %+v, %v, want its own counts", shown, err)
	}
	for open, want := range map[bool][]string{false: {"empty", "g"}, true: {"empty"}} {
		var names []string
		for _, g := range value[[]task.Group](t)(s.Groups(t.Context(), "", open, 10)) {
			names = append(names, g.Name)
		}
		if d := cmp.Diff(want, names); d != "" {
			t.Errorf("groups, open %v (-want +got):\n%s", open, d)
		}
	}
	if page := value[[]task.Group](t)(s.Groups(t.Context(), "empty", false, 10)); len(page) != 1 || page[0].Name != "g" {
		t.Errorf("page behind a group is %+v, want g", page)
	}
}

// A purge deletes old groups of which no member is left, with their parts. A group that was made anew by the name of one stays.
func purgeGroups(t *testing.T, s *store.Store) {
	ended := func(name string, at time.Duration) {
		g := newGroup(t, s, name)
		g.Sealed, g.OpenParts, g.EndedAt = true, 0, t0.Add(at)
		inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, s.SaveGroup(ctx, tx, g)) })
	}
	ended("weekly", time.Second)
	ended("old", time.Second)
	ended("has members", time.Second)
	ended("young", time.Hour)
	newGroup(t, s, "open")
	label(t, s, inserted(t, s, newTask(t, "ann", 0))[0], protocol.GroupLabel+"=has members")
	purge := store.BeforePurgeGroups(s, func() {
		for _, table := range []string{"duetime_groups", "duetime_group_parts"} {
			must(t, exec(s.DB(), "DELETE FROM "+table+" WHERE name = 'weekly'"))
		}
		newGroup(t, s, "weekly", 1)
	})
	if n := value[int](t)(purge(t.Context(), t0.Add(time.Minute), 10)); n != 2 {
		t.Errorf("%d groups were chosen, want 2", n)
	}
	if n := value[int](t)(s.PurgeGroups(t.Context(), t0.Add(time.Minute), 10)); n != 0 {
		t.Errorf("%d groups more were purged", n)
	}
	for _, name := range []string{"weekly", "has members", "young", "open"} {
		if _, found, err := s.GetGroup(t.Context(), s.DB(), name); err != nil || !found {
			t.Errorf("group %s: found %v, %v", name, found, err)
		}
		if parts := value[[]group.Part](t)(s.Parts(t.Context(), s.DB(), name)); len(parts) != group.Parts {
			t.Errorf("group %s has %d parts", name, len(parts))
		}
	}
	groups, parts := count(t, s, "SELECT COUNT(*) FROM duetime_groups"), count(t, s, "SELECT COUNT(*) FROM duetime_group_parts")
	if groups != 4 || parts != 4*group.Parts {
		t.Errorf("%d groups with %d parts are left", groups, parts)
	}
}

func groupMembers(t *testing.T, s *store.Store) {
	newGroup(t, s, "g")
	tasks := newTasks(t, 4)
	for i := range tasks[:3] {
		tasks[i].Group = "g"
	}
	rows := inserted(t, s, tasks...)
	for _, row := range rows { // the last was never a member, and the second leaves
		label(t, s, row, protocol.GroupLabel+"=g")
	}
	rows[0].State, rows[0].Version = task.Dead, 2
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		must(t, s.LeaveGroup(ctx, tx, []task.ID{rows[1].ID}))
		_, err := tx.ExecContext(ctx, "UPDATE duetime_tasks SET state = 3 WHERE id = ?", rows[0].ID[:])
		must(t, err)
		must(t, s.SaveParts(ctx, tx, "g", []group.Part{{Number: 2, Open: 2, Cancelled: -1}, {Number: 3, Open: 1, Done: 4}}, t0))
	})
	counted := group.Count{Counted: group.Part{Open: 3, Done: 4, Cancelled: -1}, Written: group.Parts * t0.UnixMilli()}
	countWant := func(name string, after task.ID, limit int, next task.ID, counted group.Count, rows group.Part) {
		t.Helper()
		counted.Rows = rows
		if got, at, err := s.CountMembers(t.Context(), name, after, limit); got != counted || at != next || err != nil {
			t.Errorf("members of %s behind %s are %+v, then %s, %v; want %+v, then %s", name, after, got, at, err, counted, next)
		}
	}
	countWant("g", task.ID{}, 5, task.ID{}, counted, group.Part{Open: 1, Dead: 1})
	countWant("g", task.ID{}, 2, rows[1].ID, counted, group.Part{Dead: 1})
	countWant("g", rows[1].ID, 2, rows[3].ID, counted, group.Part{Open: 1})
	countWant("g", rows[3].ID, 2, task.ID{}, counted, group.Part{})
	countWant("none", task.ID{}, 2, task.ID{}, group.Count{}, group.Part{})
	must(t, s.MarkChecked(t.Context(), "g"))
	if got, _, err := s.CountMembers(t.Context(), "g", task.ID{}, 5); got.CheckedAt.IsZero() || err != nil {
		t.Errorf("members are %+v, %v, want the group checked", got, err)
	}
	var groups []string
	for _, row := range value[[]task.Task](t)(s.Get(t.Context(), nil, ids(rows))) {
		groups = append(groups, row.Group)
	}
	if d := cmp.Diff([]string{"g", "", "g", ""}, groups); d != "" {
		t.Errorf("groups of the tasks (-want +got):\n%s", d)
	}
}

// Transactions that end members take parts of their own; who finds none waits.
func TestPartsAreTakenSideBySide(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{})
	newGroup(t, s, "g", 5, 5, 1)
	one, other, third := begin(t, s), begin(t, s), begin(t, s)
	for i, tx := range []*sqlx.Tx{one, other} {
		p, found, err := s.LockFreePart(t.Context(), tx, "g", 1, 2)
		must(t, err)
		if p.Number != i+1 || !found {
			t.Errorf("transaction %d got %+v, want part %d", i, p, i+1)
		}
	}
	if p, found, err := s.LockFreePart(t.Context(), third, "g", 1, 2); found || err != nil {
		t.Errorf("a third transaction got %+v, %v, want none", p, err)
	}
	if p, found, err := s.LockFreePart(t.Context(), third, "g", 1, 1); p.Number != 3 || !found || err != nil {
		t.Errorf("a third transaction got %+v, %v, want part 3", p, err)
	}
	locked := make(chan error, 1)
	go func() {
		parts, err := s.LockParts(context.WithoutCancel(t.Context()), third, "g")
		if err == nil && group.SumOf(parts).Open != 9 {
			err = fmt.Errorf("parts are %+v, want what the others have left", parts)
		}
		locked <- err
	}()
	must(t, s.SaveParts(t.Context(), one, "g", []group.Part{{Number: 1, Open: 3}}, t0))
	must(t, one.Commit())
	must(t, other.Commit())
	must(t, <-locked)
}

// A purge locks a group's parts before its row, as all others do.
func TestPurgeOfGroupsLocksInOrder(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{})
	g := newGroup(t, s, "g")
	g.Sealed, g.OpenParts, g.EndedAt = true, 0, t0
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, s.SaveGroup(ctx, tx, g)) })
	tx := begin(t, s)
	value[[]group.Part](t)(s.LockParts(t.Context(), tx, "g"))
	purged := make(chan error, 1)
	go func() {
		n, err := s.PurgeGroups(context.WithoutCancel(t.Context()), t0.Add(time.Minute), 10)
		if err == nil && n != 1 {
			err = fmt.Errorf("%d groups were purged, want 1", n)
		}
		purged <- err
	}()
	pipelinetest.Await(t, "the purge to wait", func() bool { return pipelinetest.LockWaits(t, s.DB()) > 0 })
	_, _, err := s.LockGroup(t.Context(), tx, "g")
	must(t, err)
	must(t, tx.Commit())
	must(t, <-purged)
	if groups := value[[]task.Group](t)(s.Groups(t.Context(), "", false, 10)); len(groups) != 0 {
		t.Errorf("groups that are left: %+v", groups)
	}
}
