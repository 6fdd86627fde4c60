package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
)

// endedTasks makes rows that were due in the hour before now, a page each, and ends them.
func endedTasks(t testing.TB, s *store.Store, now time.Time, pages int) {
	t.Helper()
	for i := range pages {
		rows := newTasks(t, task.MaxPerCall)
		for j := range rows {
			at := now.Add(-time.Hour + time.Duration(i*len(rows)+j)*time.Hour/time.Duration(pages*len(rows)))
			rows[j].DueAt, rows[j].RunAt = at, at
		}
		inserted(t, s, rows...)
	}
	must(t, exec(s.DB(), "UPDATE duetime_tasks SET state = 1, version = version + 1, finished_at = ?, updated_at = ?", now.UnixMilli(), now.UnixMilli()))
}

// due makes a pending row with a run time.
func due(t *testing.T, s *store.Store, at time.Time) task.ID {
	t.Helper()
	row := newTask(t, "ann", 0)
	row.DueAt, row.RunAt = at, at
	return inserted(t, s, row)[0].ID
}

// While a snapshot is kept, looks don't step over the entries of the tasks that ended since. A server doesn't count such entries, but the
// pages on which they are.
func TestLooksBeginAtTheFloor(t *testing.T) {
	t.Parallel()
	m := pipelinetest.OwnMySQL(t)
	s := migrated(t, opened(t, m.NewSchema(t), store.Options{}))
	now := value[time.Time](t)(s.Clock(t.Context()))
	worldtest.HoldSnapshot(t, s)
	endedTasks(t, s, now, 50)
	want := due(t, s, now)
	floor := value[time.Time](t)(store.ReadFloor(t.Context(), s, 0))
	if floor.Before(now.Add(-time.Minute)) || floor.After(now) {
		t.Errorf("the floor is at %v, want it shortly before %v", floor, now)
	}
	first := func(from time.Time) func() {
		return func() {
			t.Helper()
			rows := value[[]task.Task](t)(s.Pending(t.Context(), from, now.Add(time.Minute), protocol.Cursor{}, 1))
			if !slices.Equal(ids(rows), []task.ID{want}) {
				t.Errorf("from %v on found %v, want %v", from, ids(rows), want)
			}
		}
	}
	requests := func(read func()) int { return worldtest.PagesRead(t, s, read) }
	whole, part := requests(first(time.Time{})), requests(first(floor))
	oldest := requests(func() {
		if at, _, err := s.Oldest(t.Context()); err != nil || !at["default"].Equal(now.Truncate(time.Millisecond)) {
			t.Errorf("the oldest are of %v (%v), want %v", at, err, now)
		}
	})
	t.Logf("pages read: %d from the first row, %d from the floor, %d for the oldest", whole, part, oldest)
	if part > whole/4 || oldest > whole/4 {
		t.Errorf("a look reads %d pages, the oldest task %d, from the first row %d: they step over what ended", part, oldest, whole)
	}
}

// Rows that come to stand below the floor become the floor, at once where nothing is in the way.
func TestFloorFalls(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{})
	floor := func() time.Time {
		t.Helper()
		return value[time.Time](t)(store.ReadFloor(t.Context(), s, 0))
	}
	now := value[time.Time](t)(s.Clock(t.Context())).Truncate(time.Millisecond)
	if at := floor(); now.Sub(at) > time.Minute || at.After(now) {
		t.Errorf("without a row the floor is at %v, want it shortly before %v", at, now)
	}
	due(t, s, now.Add(time.Hour))
	if at := floor(); at.After(now.Add(time.Minute)) {
		t.Errorf("the floor is at %v, and a row may still be inserted for %v", at, now)
	}
	for _, old := range []time.Time{now.Add(-time.Minute), now.Add(-24 * time.Hour), time.UnixMilli(-1 << 50)} {
		due(t, s, old)
		if at := floor(); !at.Equal(old) {
			t.Errorf("the floor is at %v, want that of the row due at %v", at, old)
		}
		if at, _, err := s.Oldest(t.Context()); err != nil || !at["default"].Equal(old) {
			t.Errorf("the oldest is of %v (%v), want %v", at, err, old)
		}
	}
	must(t, exec(s.DB(), "DELETE FROM duetime_tasks"))
	if at := floor(); now.Sub(at) > time.Minute {
		t.Errorf("the floor stays at %v", at)
	}
	store.SetFloor(s, now.Add(time.Hour)) // the clock was set back since
	if at := floor(); at.After(now.Add(time.Minute)) {
		t.Errorf("the floor is at %v, after the clock", at)
	}
}

// While more is below the floor than a server may read at once, a row there is found by and by, and nothing fails.
func TestFloorFallsWhileASnapshotIsKept(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{})
	now := value[time.Time](t)(s.Clock(t.Context())).Truncate(time.Millisecond)
	worldtest.HoldSnapshot(t, s)
	endedTasks(t, s, now, 50)
	calls := 0
	await := func(what string, as func(floor time.Time) bool) {
		t.Helper()
		pipelinetest.Await(t, what, func() bool {
			calls++
			return as(value[time.Time](t)(store.ReadFloor(t.Context(), s, time.Millisecond)))
		})
	}
	recent := func(floor time.Time) bool { return floor.After(now.Add(-time.Minute)) }
	await("a floor", recent)
	for _, old := range []time.Time{now.Add(-30 * time.Minute), now.Add(-2 * time.Hour)} {
		id := due(t, s, old)
		await("the floor to fall", old.Equal)
		must(t, exec(s.DB(), "UPDATE duetime_tasks SET state = 1 WHERE id = ?", id[:]))
		await("the floor to rise", recent)
	}
	t.Logf("%d calls", calls)
}
