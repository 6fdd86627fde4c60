package hold

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/offsets"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// Whatever the order of calls: no hint is handed out more than TakeAhead before its moment, together with a later hint,
// to two runners, or out of time order within a lane; no owner is with two runners; and each hint is handed out in the
// end.
func TestHoldHandsOutEachHintOnceInItsTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := localClock()
		h := New(c)
		g := offsets.NewGeneration(&session{})
		out := map[*Hint][]*Hint{} // by the first hint of each Take
		owners := map[string]int{}
		left := map[sharedKey]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				m, _ := g.Deliver(0, int64(len(left)))
				e := &Hint{
					Hint: protocol.Hint{
						ID:      task.ID{byte(rapid.IntRange(0, 20).Draw(t, "id"))},
						Version: int64(rapid.IntRange(1, 2).Draw(t, "version")),
						Owner:   fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "owner")),
					},
					LookAt: c.Now().Add(time.Duration(rapid.SampledFrom([]int{-2000, -1000, 0, 1, 2, 3600_000}).Draw(t, "in")) * time.Millisecond),
					Lane:   Lane(rapid.IntRange(0, int(Lanes)-1).Draw(t, "lane")),
					marks:  []offsets.Mark{m},
				}
				h.Add(e)
				left[e.key()] = true
			},
			"take": func(t *rapid.T) {
				l := Lane(rapid.IntRange(0, int(Lanes)-1).Draw(t, "lane"))
				n := rapid.IntRange(1, 4).Draw(t, "n")
				taken, _ := h.takeDue(l, n)
				if len(taken) == 0 {
					return
				}
				mine := map[string]bool{}
				for i, e := range taken {
					if early := e.LookAt.Sub(c.Now()); early > TakeAhead {
						t.Fatalf("handed out %v early", early)
					} else if early > 0 && !e.LookAt.Equal(taken[0].LookAt) {
						t.Fatalf("a hint that is due in %v would keep one waiting that is due in %v", early, taken[0].LookAt.Sub(c.Now()))
					}
					if i > 0 && e.LookAt.Before(taken[i-1].LookAt) {
						t.Fatal("out of order")
					}
					mine[e.Owner] = true
				}
				for o := range mine {
					if owners[o]++; owners[o] > 1 {
						t.Fatalf("owner %s is with two runners", o)
					}
				}
				out[taken[0]] = taken
			},
			"release": func(t *rapid.T) {
				for first, taken := range out {
					mine := map[string]bool{}
					for _, e := range taken {
						mine[e.Owner] = true
						if e.Settled = rapid.Bool().Draw(t, "settled"); e.Settled {
							delete(left, e.key())
						} else {
							e.LookAt = c.Now().Add(-time.Second)
						}
					}
					for o := range mine {
						owners[o]--
					}
					h.Release(taken)
					delete(out, first)
					return
				}
			},
			"": func(t *rapid.T) {
				if h.Len() != len(left) {
					t.Fatalf("holds %d, want %d", h.Len(), len(left))
				}
			},
		})
		for _, taken := range out {
			for _, e := range taken {
				e.Settled = true
				delete(left, e.key())
			}
			h.Release(taken)
		}
		for _, e := range h.byKey {
			e.LookAt = time.Time{} // all moments have come
		}
		for l := range Lanes {
			for {
				taken, _ := h.takeDue(l, 3)
				if len(taken) == 0 {
					break
				}
				for _, e := range taken {
					e.Settled = true
					delete(left, e.key())
				}
				h.Release(taken)
			}
		}
		if len(left) > 0 || h.Len() > 0 {
			t.Fatalf("%d hints are stuck", h.Len())
		}
		if g.Uncommitted() != 0 {
			t.Fatalf("%d messages unsettled", g.Uncommitted())
		}
	})
}

func TestEqualHintsSettleTogether(t *testing.T) {
	t.Parallel()
	h := New(localClock())
	s := &session{}
	g := offsets.NewGeneration(s)
	hint := protocol.Hint{ID: task.NewID(), Owner: "a", Version: 3}
	for offset := range int64(4) {
		m, _ := g.Deliver(0, offset)
		h.Add(&Hint{Hint: hint, marks: []offsets.Mark{m}})
	}
	taken := h.Take(context.Background(), LaneBatch, 10)
	if len(taken) != 1 {
		t.Fatalf("got %d hints, want 1", len(taken))
	}
	taken[0].Settled = true
	h.Release(taken)
	if err := g.Commit(context.Background()); err != nil {
		t.Fatal(err)
	}
	if s.commits[0][0] != 4 {
		t.Errorf("committed %v, want 4", s.commits)
	}
}

// Found hints stay when their worker loses partitions, and are forgotten at its stop, unless a message waits for them.
func TestFoundHintsBelongToNoPartition(t *testing.T) {
	t.Parallel()
	c := localClock()
	h := New(c)
	g := offsets.NewGeneration(&session{})
	mark, _ := g.Deliver(0, 0)
	row := func(n byte) task.Task {
		return task.Task{ID: task.ID{n}, Owner: string('a' + rune(n)), Kind: "meal", Version: 1, RunAt: c.Now()}
	}
	first, second, third := FoundHint(row(1), c.Now(), time.Minute), FoundHint(row(2), c.Now(), time.Minute), FoundHint(row(3), c.Now(), time.Minute)
	first.Awaited, second.Awaited = true, true
	for _, e := range []*Hint{first, second, third} {
		if !h.Add(e) || h.Add(FoundHint(task.Task{ID: e.ID, Version: 1, RunAt: c.Now()}, c.Now(), time.Minute)) {
			t.Error("a found row is held once")
		}
	}
	if h.Add(NewHint(second.Hint, c.Now(), time.Minute, mark)) {
		t.Error("a message about a found row makes a second hint")
	}
	ahead := FoundHint(task.Task{ID: task.ID{9}, Version: 1, RunAt: c.Now().Add(time.Hour)}, c.Now(), 2*time.Hour)
	suspect := NewHint(ahead.Hint, c.Now(), 2*time.Hour)
	suspect.Suspect = true
	if h.Add(ahead); ahead.Suspect {
		t.Error("what is not due yet is suspect")
	}
	if h.Add(suspect); !ahead.Suspect {
		t.Error("a suspect's message makes the found hint no suspect")
	}
	if forgotten := h.ForgetFound(); len(forgotten) != 3 {
		t.Errorf("forgot %d found hints, want the three without a message", len(forgotten))
	}
	h.Add(first)
	h.Add(third)
	if forgotten, busy := h.Revoke(g); len(forgotten) != 0 || len(busy) != 0 || h.Len() != 3 {
		t.Errorf("%d forgotten, busy partitions %v, %d left; want 0, none and 3", len(forgotten), busy, h.Len())
	}
	mark2, _ := offsets.NewGeneration(&session{}).Deliver(0, 0)
	h.Add(NewHint(second.Hint, c.Now(), time.Minute, mark2))
	if !h.HasDue() || h.FoundInHand() {
		t.Errorf("due waiting: %v, in hand: %v; want true, false", h.HasDue(), h.FoundInHand())
	}
	taken := h.Take(t.Context(), LaneBatch, 3)
	if len(taken) != 3 || h.HasDue() || !h.FoundInHand() {
		t.Errorf("%d taken, due waiting: %v, in hand: %v; want 3, false, true", len(taken), h.HasDue(), h.FoundInHand())
	}
	first.Settled, second.Settled, third.Dropped = true, true, true
	if forgotten := h.Release(taken); len(forgotten) != 0 || h.Len() != 0 {
		t.Errorf("%d forgotten, %d left; want none", len(forgotten), h.Len())
	}
	if f := h.TakeFound(); f != (Found{Settled: 2, Missed: 1}) || h.TakeFound() != (Found{}) {
		t.Errorf("counted %+v, want the first as missed, and the second", f)
	}
	waiting := FoundHint(row(4), c.Now().Add(-time.Hour), time.Minute)
	h.Add(waiting)
	if forgotten := h.ForgetFound(); len(forgotten) != 1 || forgotten[0] != waiting || h.Len() != 0 {
		t.Errorf("forgot %v, %d left; want the one that waited", forgotten, h.Len())
	}
}

// A handler may run as long as its hint is in hand: until then its partition is not left with nothing running. What only waits
// keeps no partition busy, nor does what was released, however long a found hint stays.
func TestOnlyHintsInHandKeepPartitionsBusy(t *testing.T) {
	t.Parallel()
	c := localClock()
	h := New(c)
	deliver := func(part int) (offsets.Mark, *offsets.Generation) {
		g := offsets.NewGeneration(&session{})
		m, _ := g.Deliver(part, 0)
		return m, g
	}
	revoke := func(what string, g *offsets.Generation, want ...int) (forgotten []*Hint) {
		t.Helper()
		forgotten, busy := h.Revoke(g)
		if got := slices.Sorted(maps.Keys(busy)); !slices.Equal(got, want) {
			t.Errorf("%s: busy are %v, want %v", what, got, want)
		}
		return forgotten
	}
	take := func(n int) []*Hint {
		t.Helper()
		taken := h.Take(t.Context(), LaneBatch, 3)
		if len(taken) != n {
			t.Fatalf("%d taken, want %d", len(taken), n)
		}
		return taken
	}
	hint := func(n byte, at time.Time) protocol.Hint {
		return protocol.Hint{ID: task.ID{n}, Owner: string('a' + rune(n)), Version: 1, RunAt: at.UnixMilli()}
	}
	mark, g := deliver(0)
	brought, _ := g.Deliver(1, 0)
	shared, _ := g.Deliver(2, 0)
	found := FoundHint(task.Task{ID: task.ID{2}, Owner: "c", Version: 1, RunAt: c.Now()}, c.Now(), time.Minute)
	h.Add(NewHint(hint(0, c.Now().Add(30*time.Second)), c.Now(), time.Minute, mark))
	h.Add(NewHint(hint(1, c.Now()), c.Now(), time.Minute, brought))
	h.Add(found)
	h.Add(NewHint(found.Hint, c.Now(), time.Minute, shared))
	taken := take(2)
	if forgotten := revoke("two in hand, one waits", g, 1, 2); len(forgotten) != 1 || forgotten[0].ID != (task.ID{0}) {
		t.Errorf("forgot %v, want the one that waited", forgotten)
	}
	_, g = deliver(3)
	revoke("both are in hand still when the next generation ends", g, 1, 2)
	if forgotten := h.Release(taken); len(forgotten) != 1 || h.Len() != 1 {
		t.Fatalf("%d forgotten, %d left; want 1 and the found one", len(forgotten), h.Len())
	}
	_, g = deliver(3)
	revoke("the found one waits again", g)
	mark, g = deliver(2)
	h.Add(NewHint(found.Hint, c.Now(), time.Minute, mark))
	revoke("it waits with a message of a later generation", g)
	mark, g = deliver(4)
	h.Add(NewHint(found.Hint, c.Now(), time.Minute, mark))
	take(1)
	revoke("it is in hand again", g, 4)
}

func TestOnlyStuckHintsAreLetGo(t *testing.T) {
	t.Parallel()
	c := localClock()
	long := c.Now().Add(-time.Minute)
	for _, tt := range []struct {
		name string
		e    *Hint
		want int
	}{
		{"waits for a runner", &Hint{PatientSince: long}, 0},
		{"tried", &Hint{PatientSince: long, Looks: 1, LookAt: c.Now()}, 1},
		{"tried, and waits for a runner", &Hint{PatientSince: long, Looks: 1, LookAt: long}, 0},
		{"tried, but young", &Hint{PatientSince: c.Now(), Looks: 1}, 0},
		{"to be charged", &Hint{PatientSince: c.Now().Add(-6 * time.Second), Looks: 9, Failure: Failure{Err: errAnswer}}, 0},
		{"never charged", &Hint{PatientSince: c.Now().Add(-2 * time.Minute), Looks: 9, Failure: Failure{Err: errAnswer}, LookAt: c.Now()}, 1},
	} {
		h := New(c)
		h.Add(tt.e)
		if got := h.Expire(5 * time.Second); got != tt.want {
			t.Errorf("%s: let go %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestOwnersHintIsLetGoOnlyWhenItsRunnerDoesNotComeBack(t *testing.T) {
	t.Parallel()
	c := localClock()
	long := c.Now().Add(-time.Minute)
	for name, tt := range map[string]struct {
		since time.Time // when the owner's runner took the owner
		want  int
	}{
		"a moment ago": {c.Now(), 0},
		"long ago":     {long, 1},
	} {
		h := New(c)
		h.owners["ann"] = &owner{since: tt.since}
		h.Add(&Hint{Hint: protocol.Hint{Owner: "ann"}, PatientSince: long, LookAt: long})
		if got := h.Expire(5 * time.Second); got != tt.want {
			t.Errorf("%s: let go %d, want %d", name, got, tt.want)
		}
	}
}

// setClock is a database clock that a test can set.
func setClock(t *testing.T) (c *loop.Clock, set func(by time.Duration)) {
	t.Helper()
	ahead := time.Duration(0)
	c = loop.NewClock(func(context.Context) (time.Time, error) { return time.Now().Add(ahead), nil }, slog.New(slog.DiscardHandler), nil)
	set = func(by time.Duration) {
		ahead += by
		if err := c.Learn(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	set(0)
	return c, set
}

// A hint that was put off before the clock was set back would wait too long, by as much as the clock was set back.
func TestHintsAreRecalledWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	c, set := setClock(t)
	h := New(c)
	put := &Hint{Hint: protocol.Hint{ID: task.NewID(), Owner: "ann"}, LookAt: c.Now().Add(3 * time.Second)}
	h.Add(put)
	h.AdjustForClockStep(5 * time.Second)
	if taken, _ := h.takeDue(LaneBatch, 1); len(taken) > 0 {
		t.Error("recalled before its moment although the clock runs on")
	}
	set(-30 * time.Second)
	h.AdjustForClockStep(5 * time.Second)
	if taken, _ := h.takeDue(LaneBatch, 1); len(taken) != 1 || c.Now().Sub(put.PatientSince).Abs() > time.Minute/4 {
		t.Errorf("took %d hints, patient since %v; want it looked at now", len(taken), c.Now().Sub(put.PatientSince))
	}
}

// Setting the clock forward must not look like waiting to a hint that waits for its owner's runner.
func TestHintsAreKeptWhenTheClockIsSetOn(t *testing.T) {
	t.Parallel()
	c, set := setClock(t)
	h := New(c)
	h.AdjustForClockStep(5 * time.Second)
	h.owners["ann"] = &owner{since: c.Now()}
	h.Add(&Hint{Hint: protocol.Hint{Owner: "ann"}, PatientSince: c.Now(), LookAt: c.Now()})
	set(30 * time.Second)
	h.AdjustForClockStep(5 * time.Second)
	if got := h.Expire(5 * time.Second); got != 0 {
		t.Errorf("let go %d hints that came a moment ago, want 0", got)
	}
	h.owners["ann"].since = c.Now().Add(-time.Minute)
	for _, e := range h.byKey {
		e.PatientSince = c.Now().Add(-time.Minute)
	}
	h.AdjustForClockStep(5 * time.Second)
	if got := h.Expire(5 * time.Second); got != 1 {
		t.Errorf("let go %d hints that have waited for a minute, want 1", got)
	}
}

func TestPatienceIsResetAfterAPause(t *testing.T) {
	t.Parallel()
	c := localClock()
	h := New(c)
	h.Add(&Hint{PatientSince: c.Now().Add(-time.Minute), Looks: 1})
	h.ResetPatience()
	if got := h.Expire(5 * time.Second); got != 0 {
		t.Errorf("let go %d after a pause, want 0", got)
	}
}

// A pause ends in its moment, though nobody says so, and the patience of what was held begins anew.
func TestPauseEndsByItself(t *testing.T) {
	t.Parallel()
	c := localClock()
	h := New(c)
	h.Add(&Hint{Hint: protocol.Hint{ID: task.NewID()}, PatientSince: c.Now().Add(-time.Minute), Looks: 1, LookAt: c.Now()})
	h.Pause(c.Now().Add(10 * time.Minute))
	if taken, wait := h.takeDue(LaneBatch, 1); len(taken) > 0 || wait > 10*time.Minute || wait < 9*time.Minute || !h.Paused() {
		t.Errorf("%d are handed out during a pause of ten minutes, the next look is in %v", len(taken), wait)
	}
	end := c.Now().Add(20 * time.Millisecond)
	h.Pause(end)
	taken := h.Take(t.Context(), LaneBatch, 1)
	if now := c.Now(); now.Before(end) || h.Paused() || len(taken) != 1 {
		t.Errorf("%d are handed out %v after the pause", len(taken), now.Sub(end))
	}
	h.Release(taken)
	if got := h.Expire(5 * time.Second); got != 0 {
		t.Errorf("let go %d after a pause, want 0", got)
	}
	h.Pause(c.Now().Add(time.Hour))
	h.Pause(time.Time{})
	if h.Paused() {
		t.Error("a resumed queue is paused")
	}
}

// Race 4: an idle runner must wake for the second hint while another runner works on the first.
func TestSomebodyAlwaysWakesForTheNextMoment(t *testing.T) {
	t.Parallel()
	h := New(localClock())
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	got := make(chan []*Hint, 2)
	for range 2 {
		go func() { got <- h.Take(ctx, LaneBatch, 1) }() // one that wakes late must not take both
	}
	time.Sleep(20 * time.Millisecond) // both runners probably sleep by now; if not, the test is only weaker
	for i := range 2 {
		at := h.clock.Now().Add(time.Duration(30*(i+1)) * time.Millisecond)
		h.Add(&Hint{Hint: protocol.Hint{ID: task.NewID(), Owner: fmt.Sprint(i)}, LookAt: at})
	}
	for range 2 {
		if taken := <-got; len(taken) == 0 {
			t.Fatal("a due hint was not taken by an idle runner")
		}
	}
}

// Race 6: a suspect that waits for one of another queue is no demand, and its owner is free.
func TestSuspectWaitsForItsSeatFirst(t *testing.T) {
	t.Parallel()
	suspect := func(owner string) *Hint {
		return &Hint{Hint: protocol.Hint{ID: task.NewID(), Owner: owner}, Lane: LaneSuspect}
	}
	seat := make(chan struct{}, 1)
	first, second := New(localClock()), New(localClock())
	first.ShareSeat(seat)
	second.ShareSeat(seat)
	if taken, wait := second.takeSeated(t.Context(), LaneSuspect, 1); len(taken) > 0 || wait < time.Minute || len(seat) > 0 {
		t.Fatalf("without suspects %d are handed out, the next look is in %v", len(taken), wait)
	}
	first.Add(suspect("ann"))
	running := first.Take(t.Context(), LaneSuspect, 1)
	second.Add(suspect("bob"))
	if !second.Demand().Due || !second.HasDue() {
		t.Error("a due suspect is no demand")
	}
	got := make(chan []*Hint)
	go func() { got <- second.Take(t.Context(), LaneSuspect, 1) }()
	for second.HasDue() {
		time.Sleep(time.Millisecond) // until it waits
	}
	if second.Demand().Due {
		t.Error("a suspect that waits for its seat asks for permits")
	}
	second.Add(&Hint{Hint: protocol.Hint{ID: task.NewID(), Owner: "bob"}})
	if taken, _ := second.takeDue(LaneBatch, 1); len(taken) != 1 {
		t.Error("the owner of a suspect that waits is taken")
	} else {
		taken[0].Settled = true
		second.Release(taken)
	}
	running[0].Settled = true
	first.Release(running)
	taken := <-got
	if len(taken) != 1 || len(seat) != 1 {
		t.Fatalf("%d taken once the seat was free, %d in it; want 1, 1", len(taken), len(seat))
	}
	if second.Release(taken); len(seat) != 0 || !second.HasDue() {
		t.Error("the seat is not free after the Release")
	}
}

// A batch ends after its partitions were given to another worker. Its offsets must never be committed: not by the old
// generation, and not by the new one, which has read its own messages from the committed offset on.
func TestOldGenerationsResultsAreNeverCommitted(t *testing.T) {
	t.Parallel()
	before, after := &session{}, &session{}
	h := New(localClock())
	hint := protocol.Hint{ID: task.NewID(), Owner: "a", Version: 1}
	old := offsets.NewGeneration(before)
	settled, _ := old.Deliver(0, 8)
	settled.Settle() // settled, but not committed
	first, _ := old.Deliver(0, 10)
	h.Add(&Hint{Hint: hint, marks: []offsets.Mark{first}})
	taken := h.Take(context.Background(), LaneBatch, 10)

	old.End()
	h.Revoke(old)
	fresh := offsets.NewGeneration(after)
	lower, _ := fresh.Deliver(0, 9) // another task's message, earlier in the log
	again, _ := fresh.Deliver(0, 10)
	h.Add(&Hint{Hint: protocol.Hint{ID: task.NewID(), Owner: "b", Version: 1}, marks: []offsets.Mark{lower}})
	h.Add(&Hint{Hint: hint, marks: []offsets.Mark{again}})

	taken[0].Settled = true
	if gone := h.Release(taken); len(gone) != 0 {
		t.Errorf("%d hints gone that somebody waits for", len(gone))
	}
	for _, g := range []*offsets.Generation{old, fresh} {
		if err := g.Commit(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if len(before.commits) != 0 {
		t.Errorf("old generation committed %v", before.commits)
	}
	if len(after.commits) != 0 {
		t.Errorf("new generation committed %v over an unsettled message", after.commits)
	}
	rest := h.Take(context.Background(), LaneBatch, 10)
	rest[0].Settled = true
	h.Release(rest)
	if err := fresh.Commit(context.Background()); err != nil {
		t.Fatal(err)
	}
	if len(after.commits) != 1 || after.commits[0][0] != 11 {
		t.Errorf("new generation committed %v, want 11", after.commits)
	}
}

// session records what is committed.
type session struct{ commits []map[int]int64 }

func (s *session) Commit(_ context.Context, next map[int]int64) error {
	s.commits = append(s.commits, maps.Clone(next))
	return nil
}

var errAnswer = errors.New("the answer of a handler")

// localClock has had no probe: it tells local time.
func localClock() *loop.Clock { return loop.NewClock(nil, slog.New(slog.DiscardHandler), nil) }
