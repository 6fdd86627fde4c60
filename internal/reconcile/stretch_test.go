package reconcile

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
)

// crowd inserts n rows of a queue with right entries, due one after the other until the given moment.
func (w *world) crowd(t testing.TB, queue string, n int, until time.Duration) {
	t.Helper()
	all := make([]task.Task, n)
	for i := range all {
		all[i] = pending("ann", until-time.Duration(n-i)*time.Millisecond)
		all[i].Queue = queue
	}
	for part := range slices.Chunk(all, task.MaxPerCall) {
		w.put(t, w.insert(t, part...)...)
	}
}

// reader counts the rows that a pass reads.
type reader struct {
	Store
	rows map[string]int // by queue
}

func (r *reader) PendingExcept(
	ctx context.Context, except []string, from, to time.Time, after protocol.Cursor, limit int,
) ([]task.Task, protocol.Cursor, error) {
	rows, next, err := r.Store.PendingExcept(ctx, except, from, to, after, limit)
	for _, row := range rows {
		r.rows[row.Queue]++
	}
	return rows, next, err
}

func (w *world) counted() *reader {
	r := &reader{Store: w.store, rows: map[string]int{}}
	w.store = r
	return r
}

// flooredStore is a store that says where the pending rows begin.
type flooredStore struct {
	Store
	floor time.Time
}

func (s flooredStore) Floor(context.Context) (time.Time, error) { return s.floor, nil }

// Passes read from the floor on: in front of it there may be millions of entries of ended tasks.
func TestPassesBeginAtTheFloor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	_, err := w.rows.Pause(t.Context(), w.rows.DB(), "paused", w.now, time.Time{})
	pipelinetest.Must(t, err)
	for _, queue := range []string{"default", "paused"} {
		below, above := pending("ann", -2*time.Hour), pending("ann", -time.Minute)
		below.Queue, above.Queue = queue, queue
		w.insert(t, below, above)
	}
	onlyAbove := map[string]int{"default": 1, "paused": 1}
	settled := func(change func(), pass sweepRun) sweepRun { // a change that all processes know
		change()
		w.layout(t)
		w.run(t, pass)
		w.now = w.now.Add(w.cfg.Settle)
		return pass
	}
	for _, c := range []struct {
		name string
		pass func() sweepRun
		want map[string]int
	}{
		{"overdue", func() sweepRun { return new(overdue).pass }, map[string]int{"default": 2, "paused": 1}}, // the look at paused rows reads both
		{"audit", func() sweepRun { return w.auditRows().pass }, onlyAbove},
		{"rebuild", func() sweepRun { return new(rebuild).pass }, onlyAbove},
		{"horizon", func() sweepRun {
			return settled(func() {
				pipelinetest.Must(t, w.rows.SetHorizon(t.Context(), w.layout(t), 0, true, protocol.Event{At: w.now, Name: protocol.EventHorizon}))
			}, new(horizon).pass)
		}, onlyAbove},
		{"rehome", func() sweepRun { return settled(func() { w.change(t, 16) }, new(rehome).pass) }, onlyAbove},
	} {
		pass, store := c.pass(), w.store
		w.store = flooredStore{store, base.Add(-time.Hour)}
		read := w.counted()
		w.run(t, pass)
		if d := cmp.Diff(c.want, read.rows); d != "" {
			t.Errorf("%s read (-want +got):\n%s", c.name, d)
		}
		w.store = store
	}
}

// fallingStore is a store whose floor falls from one read to the next.
type fallingStore struct {
	Store
	floors []time.Time
}

func (s *fallingStore) Floor(context.Context) (floor time.Time, err error) {
	if floor = s.floors[0]; len(s.floors) > 1 {
		s.floors = s.floors[1:]
	}
	return floor, nil
}

// A rebuild also puts what comes to light below the floor meanwhile.
func TestRebuildFollowsTheFloor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	w.insert(t, pending("ann", -3*time.Hour), pending("bob", -2*time.Hour), pending("cid", -time.Minute))
	w.store = &fallingStore{w.store, []time.Time{base.Add(-time.Hour), base.Add(-2 * time.Hour), base.Add(-3 * time.Hour)}}
	w.run(t, new(rebuild).pass)
	w.wantTruth(t)
}

// So does the fill of an index that is to hold all rows.
func TestHorizonFollowsTheFloor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	w.insert(t, pending("ann", -3*time.Hour), pending("bob", -2*time.Hour), pending("cid", -time.Minute))
	pipelinetest.Must(t, w.rows.SetHorizon(t.Context(), w.layout(t), 0, true, protocol.Event{At: w.now, Name: protocol.EventHorizon}))
	h := new(horizon)
	w.run(t, h.pass)
	w.now = w.now.Add(w.cfg.Settle)
	w.store = &fallingStore{w.store, []time.Time{base.Add(-time.Hour), base.Add(-2 * time.Hour), base.Add(-2 * time.Hour), base.Add(-3 * time.Hour)}}
	for runs := 0; w.layout(t).Partial && runs < 10; runs++ {
		w.run(t, h.pass)
	}
	w.wantTruth(t)
}

func TestNewestComeBeforeMillionsThatAreOlder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	w.crowd(t, "default", 6000, -time.Hour)
	lost := w.insert(t, pending("bob", sec(-3)))[0]
	read, o := w.counted(), new(overdue)
	res := w.run(t, o.pass)
	w.wantStanding(t, "lost and new", lost, both(lost))
	most := overduePages*page + 1
	if n := read.rows["default"]; n > most || !res.More {
		t.Errorf("the pass read %d rows, then %+v; want at most %d, and the others at once", n, res, most)
	}
	res = w.run(t, o.pass)
	if n := read.rows["default"]; n < 6001 || res.More {
		t.Errorf("two passes read %d rows, then %+v; want all, and a rest", n, res)
	}
}

func TestPausedMillionsHideNoLostHint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	_, err := w.rows.Pause(t.Context(), w.rows.DB(), "paused", w.now, time.Time{})
	pipelinetest.Must(t, err)
	w.crowd(t, "paused", 9000, -time.Hour)
	w.crowd(t, "paused", 500, sec(-2))
	fresh, old := w.insert(t, pending("bob", sec(-3)))[0], w.insert(t, pending("eve", sec(-60)))[0]
	read, o := w.counted(), new(overdue)
	w.run(t, o.pass)
	w.wantStanding(t, "lost and new", fresh, both(fresh))
	passes := 1
	for ; w.standing(t, old) != both(old) && passes < 30; passes++ {
		w.now = w.now.Add(sec(0.5))
		w.run(t, o.pass)
	}
	w.wantStanding(t, "lost and older", old, both(old))
	if n := read.rows["paused"]; n > passes*smallPage {
		t.Errorf("%d passes read %d rows of the paused queue, want none but %d a pass by the way", passes, n, smallPage)
	}
}

// A lap over several passes decides by when it last looked at a row, not by when the previous pass began.
func TestTurnsAreKeptOverLongLaps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	w.crowd(t, "default", 5000, -time.Hour)
	row := w.insert(t, pending("bob", -time.Hour))[0]
	o := new(overdue)
	puts := 0
	for ; w.now.Before(base.Add(240 * time.Second)); w.now = w.now.Add(sec(10)) {
		w.run(t, o.pass)
		if w.standing(t, row).Due != protocol.NoScore {
			puts++
			_, err := worldtest.Acknowledge(t.Context(), w.sets, row.Shard, 1, []protocol.Entry{w.entry(t, row)})
			pipelinetest.Must(t, err)
		}
	}
	// For a row that is an hour old, the next two steps come after 156 and after 323 seconds.
	if puts != 1 {
		t.Errorf("%d puts within four minutes, want 1", puts)
	}
}
