package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// setHorizon makes the daemon's configuration say so, and runs the pass until the layout does.
func (w *world) setHorizon(t testing.TB, d time.Duration) {
	t.Helper()
	w.cfg.Horizon = d
	w.reachHorizon(t, new(horizon))
}

func (w *world) reachHorizon(t testing.TB, h *horizon) {
	t.Helper()
	for range 100 {
		if l := w.layout(t); l.Horizon == w.cfg.Horizon && l.Partial == (l.Horizon > 0) {
			w.run(t, h.pass)
			return
		}
		w.run(t, h.pass)
		w.layout(t)
		w.now = w.now.Add(time.Second)
	}
	t.Fatalf("not reached after 100 runs: %+v", w.layout(t))
}

// ladder makes a row due each minute for two hours.
func (w *world) ladder(t testing.TB) []task.Task {
	t.Helper()
	var tasks []task.Task
	for i := range 120 {
		tasks = append(tasks, pending(fmt.Sprint("owner-", i%7), time.Duration(i+1)*time.Minute))
	}
	rows := w.insert(t, tasks...)
	w.put(t, rows...)
	return rows
}

// wantWithin checks that the index holds exactly the pending rows that are due before a moment.
func (w *world) wantWithin(t testing.TB, what string, until time.Time) {
	t.Helper()
	got := w.members(t)
	rows, err := w.rows.Pending(t.Context(), time.Time{}, farFuture, protocol.Cursor{}, page)
	pipelinetest.Must(t, err)
	for _, row := range rows {
		want := protocol.NoScore
		if row.RunAt.Before(until) {
			want = protocol.ScoreOf(row)
		}
		for _, set := range []string{"due", "owner"} {
			key := fmt.Sprintf("%d %s %s %s", row.Shard, set, row.Owner, row.ID)
			score, found := got[key]
			if !found {
				score = protocol.NoScore
			}
			if score != want {
				t.Errorf("%s: the row due in %v has score %v in %s, want %v", what, row.RunAt.Sub(w.now), score, set, want)
			}
			delete(got, key)
		}
	}
	if len(got) > 0 {
		t.Errorf("%s: %d entries without a row", what, len(got))
	}
}

func TestHorizon(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	const minutes = 10
	edge := func() time.Time { return w.now.Add(minutes*time.Minute + 30*time.Second) } // no row is due in between
	w.run(t, new(rebuild).pass)
	w.now = w.now.Add(30 * time.Second)
	rows := w.ladder(t)
	began := w.now
	w.setHorizon(t, minutes*time.Minute)
	if took := w.now.Sub(began); took < w.cfg.Settle {
		t.Errorf("the horizon is set after %v, before all processes read lists from the database", took)
	}
	alarms := w.alarms.Load()
	if alarms == 0 {
		t.Error("no audit was asked for")
	}
	w.now = base.Add(time.Minute)
	soon := new(lookahead)
	w.run(t, soon.pass)
	w.run(t, new(auditIndex).pass)
	w.wantWithin(t, "after the audit", edge())
	w.flush(t)
	w.run(t, new(rebuild).pass)
	w.wantWithin(t, "after a rebuild", edge())
	for range 12 {
		w.now = w.now.Add(5 * time.Second)
		w.run(t, new(changed).pass)
		w.run(t, new(auditRows).pass)
		w.run(t, soon.pass)
	}
	w.wantWithin(t, "after a minute", edge())

	far, near := rows[100], rows[5]
	far, near = w.save(t, w.moved(t, far, 8*time.Minute)), w.save(t, w.moved(t, near, 3*time.Hour))
	w.put(t, far, near)
	w.wantWithin(t, "after moves across the edge", edge())
	w.save(t, w.moved(t, near, 7*time.Minute)) // of a writer that dies before its put
	w.save(t, w.moved(t, far, 5*time.Hour))
	w.now = w.now.Add(5 * time.Second)
	for range 2 {
		w.run(t, new(changed).pass)
	}
	w.wantWithin(t, "after moves without a put", edge())
	if drift := w.alarms.Load() - alarms; drift != 2 {
		t.Errorf("%d alarms, want 2: for the moves without a put", drift)
	}

	w.setHorizon(t, 2*minutes*time.Minute)
	w.now = base.Add(3 * time.Minute)
	w.run(t, soon.pass)
	w.wantWithin(t, "with a farther horizon", edge().Add(minutes*time.Minute))
	w.setHorizon(t, 0)
	w.wantTruth(t)
}

// Until the index is complete, and as soon as it no longer is, no list may be read there.
func TestHorizonChangesInSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	w.run(t, new(rebuild).pass)
	w.ladder(t)
	h := new(horizon)
	steps := func(want ...string) {
		t.Helper()
		for _, step := range want {
			if got := horizonName(w.layout(t).Horizon, w.layout(t).Partial); got != step {
				t.Errorf("got the step %s, want %s", got, step)
			}
			w.run(t, h.pass)
			w.run(t, h.pass) // it waits
			w.layout(t)
			w.now = w.now.Add(w.cfg.Settle)
		}
	}
	w.cfg.Horizon = time.Hour
	steps("none", "none yet", "1h0m0s", "1h0m0s")
	w.cfg.Horizon = 0
	steps("1h0m0s", "none yet", "none", "none")
	w.wantTruth(t)

	// A row that a writer with the old layout commits, and does not put, while the index is filled.
	w.setHorizon(t, time.Minute)
	w.run(t, w.auditIndex().pass)
	w.cfg.Horizon = 0
	w.run(t, h.pass)
	w.now = w.now.Add(time.Second)
	w.run(t, h.pass)
	w.now = w.now.Add(w.cfg.Settle)
	late := pending("ann", time.Millisecond) // its page comes first
	late.UpdatedAt = w.now
	w.between(func() { w.insert(t, late) })
	w.reachHorizon(t, h)
	w.wantTruth(t)
}

func (s killedStore) SetHorizon(ctx context.Context, l protocol.Layout, d time.Duration, partial bool, line protocol.Event) error {
	return s.k.call(func() error { return s.Store.SetHorizon(ctx, l, d, partial, line) })
}

// A daemon dies before or after any write of a change of the horizon. The next one ends it.
func TestHorizonSurvivesTheDaemonsDeath(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	w.run(t, new(rebuild).pass)
	w.ladder(t)
	store, index := w.store, w.index
	for at := 1; ; at++ {
		died := 0
		for _, after := range []bool{false, true} {
			for _, d := range []time.Duration{10 * time.Minute, 0} {
				k := &killer{at: at, after: after}
				w.cfg.Horizon = d
				w.store, w.index = killedStore{store, k}, killedIndex{index, k}
				h := new(horizon)
				for l := w.layout(t); l.Horizon != d || l.Partial != (d > 0); l = w.layout(t) {
					if _, err := w.try(t.Context(), h.pass); errors.Is(err, errKilled) {
						died++
						break
					} else if err != nil {
						t.Fatal(err)
					}
					w.layout(t)
					w.now = w.now.Add(w.cfg.Settle)
				}
				w.store, w.index = store, index
				w.setHorizon(t, d)
				if d > 0 {
					w.run(t, w.auditIndex().pass)
				}
			}
			w.wantTruth(t)
		}
		if died == 0 {
			if at < 4 {
				t.Errorf("only %d writes to die at", at-1)
			}
			return
		}
	}
}

// Another program's row whose time no score can hold stands at 1970 with a horizon too: a worker is to end it.
func TestRowsThatNoScoreCanHoldStandWithAHorizon(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	w.run(t, new(rebuild).pass)
	w.setHorizon(t, time.Hour)
	row := pending("ann", 0)
	for _, at := range []*time.Time{&row.DueAt, &row.RunAt, &row.CreatedAt, &row.UpdatedAt} {
		*at = time.UnixMilli(1.7e15).UTC()
	}
	row = w.insert(t, row)[0]
	audit := new(auditRows).pass
	sweep := func() {
		for _, pass := range []sweepRun{
			new(lookahead).pass, new(changed).pass, audit, w.auditIndex().pass,
		} {
			w.run(t, pass)
		}
	}
	sweep()
	w.wantStanding(t, "inserted by another program", row, both(row))
	sweep()
	w.wantStanding(t, "after another sweep", row, both(row))
}

// While the number of shards changes, rows beyond the horizon move without entries.
func TestRehomeWithinTheHorizon(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	w.run(t, new(rebuild).pass)
	w.now = w.now.Add(30 * time.Second)
	rows := w.ladder(t)
	w.setHorizon(t, 10*time.Minute)
	w.run(t, new(lookahead).pass)
	w.run(t, w.auditIndex().pass)
	w.now = base.Add(time.Minute)
	w.change(t, 16)
	w.moveAll(t, new(rehome))
	w.wantPlaced(t, rows)
	for _, row := range rows[30:] {
		row.Shard = w.layout(t).Place(row.Owner)
		w.wantStanding(t, "a far row in its new place", row, nowhere)
	}
	w.now = w.now.Truncate(time.Minute).Add(30 * time.Second) // no row is due near the edge
	w.run(t, new(lookahead).pass)
	w.run(t, w.auditIndex().pass)
	w.wantWithin(t, "after the change", w.now.Add(10*time.Minute))
}

// firstPageStore runs a function once, after the first page of pending rows was read.
type firstPageStore struct {
	Store
	then *func()
}

func (s firstPageStore) PendingExcept(
	ctx context.Context, except []string, from, to time.Time, after protocol.Cursor, limit int,
) ([]task.Task, protocol.Cursor, error) {
	rows, next, err := s.Store.PendingExcept(ctx, except, from, to, after, limit)
	if then := *s.then; then != nil {
		*s.then = nil
		then()
	}
	return rows, next, err
}

// A horizon is set while a rebuild puts every row: it goes no farther.
func TestRebuildEndsAtANewHorizon(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	tasks := make([]task.Task, scanPage+100)
	for i := range tasks {
		tasks[i] = pending(fmt.Sprint("owner-", i%50), time.Duration(i+60)*time.Minute)
	}
	for some := range slices.Chunk(tasks, page) {
		w.insert(t, some...)
	}
	then := func() {
		pipelinetest.Must(t, w.rows.SetHorizon(t.Context(), w.layout(t), 10*time.Minute, true, protocol.Event{At: base, Name: protocol.EventHorizon}))
		w.layout(t)
	}
	w.store = firstPageStore{w.store, &then}
	w.run(t, new(rebuild).pass)
	if n := len(w.members(t)); n != 2*scanPage {
		t.Errorf("%d entries, want those of the first page of %d rows in both sets", n, scanPage)
	}
	if marked, err := w.sets.Marked(t.Context(), shards); err != nil || slices.Contains(marked, false) {
		t.Errorf("markers %v, %v", marked, err)
	}
}

// secondPageStore runs a function once, before the second page of pending rows that are not near is read.
type secondPageStore struct {
	Store
	w     *world
	pages *int
	then  func()
}

func (s secondPageStore) PendingExcept(
	ctx context.Context, except []string, from, to time.Time, after protocol.Cursor, limit int,
) ([]task.Task, protocol.Cursor, error) {
	if from.After(s.w.now.Add(2 * s.w.cfg.Interval)) {
		if *s.pages++; *s.pages == 2 {
			s.then()
		}
	}
	return s.Store.PendingExcept(ctx, except, from, to, after, limit)
}

// within makes the horizon ten minutes, and n rows without entries that are due there, two a second from half a minute on.
func (w *world) within(t testing.TB, n int) {
	t.Helper()
	w.run(t, new(rebuild).pass)
	w.setHorizon(t, 10*time.Minute)
	tasks := make([]task.Task, n)
	for i := range tasks {
		tasks[i] = pending(fmt.Sprint("owner-", i%7), w.in(30*time.Second+time.Duration(i)*time.Second/2))
	}
	for some := range slices.Chunk(tasks, page) {
		w.insert(t, some...)
	}
}

// in returns a duration from now as one from base.
func (w *world) in(d time.Duration) time.Duration { return w.now.Add(d).Sub(base) }

// A new term feeds the horizon. Meanwhile another program inserts rows: those that the lookahead has passed must stand.
func TestRowsBehindTheLookaheadMustStand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	w.within(t, 2*smallPage+100)
	pages := 0
	w.store = secondPageStore{w.store, w, &pages, func() {
		rows := []task.Task{pending("ann", w.in(time.Minute)), pending("ann", w.in(4*time.Minute))}
		for i := range rows {
			rows[i].UpdatedAt = w.now.Add(-2 * time.Second)
		}
		rows = w.insert(t, rows...)
		w.run(t, new(changed).pass)
		w.wantStanding(t, "due in a minute, behind the lookahead", rows[0], both(rows[0]))
		w.wantStanding(t, "due in four minutes, before the lookahead", rows[1], nowhere)
	}}
	w.run(t, new(lookahead).pass)
	if pages < 2 {
		t.Errorf("%d pages of rows that are not near, want several", pages)
	}
	w.wantTruth(t)
}

// slowStore is a store that takes as long to read a page of rows that are not near as these may wait.
type slowStore struct {
	Store
	w *world
}

func (s slowStore) PendingExcept(
	ctx context.Context, except []string, from, to time.Time, after protocol.Cursor, limit int,
) ([]task.Task, protocol.Cursor, error) {
	if from.After(s.w.now.Add(2 * s.w.cfg.Interval)) {
		s.w.now = s.w.now.Add(s.w.cfg.Interval)
	}
	return s.Store.PendingExcept(ctx, except, from, to, after, limit)
}

// However many rows are within the horizon, near ones are compared in between.
func TestNearRowsDoNotWaitForTheHorizon(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	w.within(t, 2*smallPage+100)
	l := new(lookahead)
	w.store = slowStore{w.store, w}
	pass := func(more bool, rows int) {
		t.Helper()
		if res := w.run(t, l.pass); res.More != more {
			t.Errorf("more: %v, want %v", res.More, more)
		}
		if n := len(w.members(t)); n != 2*rows {
			t.Errorf("%d entries, want %d rows in both sets", n, rows)
		}
	}
	pass(true, smallPage)
	near := pending("ann", w.in(3*time.Second))
	near.UpdatedAt = w.now
	near = w.insert(t, near)[0]
	pass(true, 2*smallPage+1)
	w.wantStanding(t, "due in 3 s", near, both(near))
	pass(false, 2*smallPage+101)
	w.wantTruth(t)
}

// Rows come within the horizon while their shard fails: they are put once it answers, and were no drift until then.
func TestEdgeOfTheHorizonWhileAShardFails(t *testing.T) {
	t.Parallel()
	const failing = 1
	w := newWorld(t, Config{})
	w.within(t, 0)
	l := new(lookahead)
	w.run(t, l.pass)
	rows := w.insert(t, ofEach(w.in(10*time.Minute+15*time.Second))...)
	on := true
	w.index = torn{w.index, failing, &on}
	for range 3 {
		w.now = w.now.Add(10 * time.Second)
		if _, err := w.try(t.Context(), l.pass); !errors.Is(err, errTorn) {
			t.Errorf("the pass ended with %v, want it to name the shard", err)
		}
	}
	for _, row := range rows {
		want := both(row)
		if row.Shard == failing {
			want = nowhere
		}
		w.wantStanding(t, fmt.Sprint("shard ", row.Shard), row, want)
	}
	on = false
	before := w.alarms.Load()
	w.run(t, new(auditRows).pass)
	if n := w.alarms.Load() - before; n != 0 {
		t.Errorf("%d alarms about rows that were not put yet", n)
	}
	w.run(t, l.pass)
	w.wantTruth(t)
}
