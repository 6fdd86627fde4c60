package limit_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/limit"
	"github.com/duetime/duetime/pkg/task"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// member is a worker with more due tasks than it may run.
type member struct {
	name    string
	slots   limit.Slots
	asks    time.Time // next
	noSlots time.Time // until then it asks for none
	dead    bool
	calls   int
	permits int
	until   time.Time
	running int
}

// play lets members with endless work share a rate, a millisecond at a time, and returns when calls were made. kill ends the
// first member then; stall is how long all of them stand still after 15 s.
func play(rate task.Rate, members []*member, span, kill, stall time.Duration) (calls []time.Time) {
	r := rand.New(rand.NewPCG(1, uint64(len(members))))
	st := limit.State{}
	for now := t0; now.Before(t0.Add(span)); now = now.Add(time.Millisecond) {
		if at := now.Sub(t0) - 15*time.Second; at >= 0 && at < stall {
			continue
		}
		for i, m := range members {
			if m.dead = m.dead || i == 0 && kill > 0 && now.Sub(t0) >= kill; m.dead {
				continue
			}
			if !now.Before(m.asks) {
				m.asks = now.Add(40*time.Millisecond + time.Duration(r.IntN(20))*time.Millisecond)
				if 2*m.slots.Len() <= limit.Lot(rate, len(members)) && !now.Before(m.noSlots) {
					var g limit.Grant
					st, g = st.Grant(limit.Ask{
						Limit: task.Limit{Rate: rate}, Holder: m.name, Members: len(members), Slots: true, Lost: m.slots.Lost(),
					}, now)
					m.slots.Add(g.Slots)
					m.noSlots = g.SlotsAt.Add(time.Duration(r.IntN(50)) * time.Millisecond)
				}
			}
			for range m.slots.Ready(now) {
				m.slots.Take()
				m.calls++
				calls = append(calls, now)
				m.asks = now // it wakes up
			}
		}
	}
	return calls
}

func team(n int) []*member {
	members := make([]*member, n)
	for i := range members {
		members[i] = &member{name: fmt.Sprint("m", i)}
	}
	return members
}

// Over any ten seconds after the first the calls are within 5 % of the rate, whatever the number of workers, while one ends, and after
// all stood still for a while.
func TestRateIsKept(t *testing.T) {
	t.Parallel()
	for _, rate := range []task.Rate{{Calls: 200, Per: time.Second}, {Calls: 5000, Per: time.Second}, {Calls: 1200, Per: time.Minute}, {Calls: 60, Per: time.Minute}} {
		for _, n := range []int{1, 4, 16} {
			for _, c := range []struct{ kill, stall time.Duration }{{}, {kill: 7 * time.Second}, {stall: 500 * time.Millisecond}} {
				if c.kill > 0 && n == 1 {
					continue
				}
				calls := play(rate, team(n), 40*time.Second, c.kill, c.stall)
				fewest, most := busiest(calls, t0.Add(time.Second), t0.Add(40*time.Second))
				want := rate.In(10 * time.Second)
				slack := want/20 + 2*n // a slot that was leased and lost counts whole
				if fewest < want-slack || most > want+slack {
					t.Errorf("%v, %d members, %+v: %d to %d calls in ten seconds, want %d within 5%%", rate, n, c, fewest, most, want)
				}
			}
		}
	}
}

// busiest returns the fewest and the most calls in ten seconds.
func busiest(calls []time.Time, from, to time.Time) (fewest, most int) {
	fewest = len(calls)
	for at := from; !at.Add(10 * time.Second).After(to); at = at.Add(100 * time.Millisecond) {
		first, _ := slices.BinarySearchFunc(calls, at, time.Time.Compare)
		end, _ := slices.BinarySearchFunc(calls, at.Add(10*time.Second), time.Time.Compare)
		fewest, most = min(fewest, end-first), max(most, end-first)
	}
	return fewest, most
}

// Members get equal shares, also where they are more than the slots of half a second.
func TestMembersGetEqualShares(t *testing.T) {
	t.Parallel()
	for n, rate := range map[int]task.Rate{4: {Calls: 200, Per: time.Second}, 8: {Calls: 4, Per: time.Second}, 16: {Calls: 10, Per: time.Second}} {
		members := team(n)
		all := len(play(rate, members, 200*rate.Span(n), 0, 0))
		for _, m := range members {
			if m.calls < all/n*4/5 || m.calls > all/n*6/5 {
				t.Errorf("%v: %s of %d made %d of %d calls", rate, m.name, n, m.calls, all)
			}
		}
	}
}

// A rate that was an hour's is not waited for when it is raised, nor after the clock was set back.
func TestLeasedFarAheadIsForgotten(t *testing.T) {
	t.Parallel()
	_, account := limit.Next(task.Rate{Calls: 1, Per: time.Hour}, limit.Account{}, t0, 1)
	raised := task.Rate{Calls: 100, Per: time.Second}
	_, account = limit.Next(raised, account, t0, 1)
	if ahead := account.Leased.Sub(t0); ahead > time.Second {
		t.Errorf("slots of %v are leased for %v ahead", raised, ahead)
	}
}

func TestSlots(t *testing.T) {
	t.Parallel()
	var s limit.Slots
	s.Add(limit.Lease{From: t0, Step: 100 * time.Millisecond, N: 5})
	if n := s.Ready(t0.Add(-1)); n != 0 {
		t.Errorf("%d slots have come before the first", n)
	}
	if n := s.Ready(t0.Add(250 * time.Millisecond)); n != 3 {
		t.Errorf("%d slots have come after 250 ms, want 3", n)
	}
	if at := s.Take(); !at.Equal(t0) || s.Len() != 4 {
		t.Errorf("took the slot of %v, %d are left", at, s.Len())
	}
	s.Refund(t0, t0.Add(250*time.Millisecond))
	s.Refund(t0, t0.Add(time.Second)) // too late
	if n := s.Lost(); n != 1 {
		t.Errorf("%d slots are lost, want 1", n)
	}
	if s.Len() != 5 || s.Ready(t0) != 1 {
		t.Errorf("after a refund there are %d, %d have come", s.Len(), s.Ready(t0))
	}
	if n := s.Ready(t0.Add(550 * time.Millisecond)); n != 2 {
		t.Errorf("%d slots are left after 550 ms, want those of 300 and 400 ms", n)
	}
	if n := s.Lost(); n != 3 {
		t.Errorf("%d slots are lost, want those of 0, 100 and 200 ms", n)
	}
	if at, ok := s.First(); !ok || !at.Equal(t0.Add(300*time.Millisecond)) {
		t.Errorf("the first is of %v", at)
	}
}

// A slot of a low rate can be used until the next one comes.
func TestSlotOfALowRate(t *testing.T) {
	t.Parallel()
	var s limit.Slots
	s.Add(limit.Lease{From: t0, Step: 6 * time.Second, N: 1})
	if n := s.Ready(t0.Add(5 * time.Second)); n != 1 {
		t.Errorf("%d slots are there after 5 s", n)
	}
	s.Refund(s.Take(), t0.Add(5*time.Second))
	if n := s.Ready(t0.Add(6*time.Second - 1)); n != 1 {
		t.Errorf("%d slots are there after a refund", n)
	}
	if n := s.Ready(t0.Add(6 * time.Second)); n != 0 || s.Lost() != 1 {
		t.Errorf("%d slots are there when the next one comes", n)
	}
}

// A worker that needs slots while all are leased far enough ahead is told when to ask again, and changes nothing.
func TestNoSlots(t *testing.T) {
	t.Parallel()
	ask := limit.Ask{Limit: task.Limit{Rate: task.Rate{Calls: 10, Per: time.Hour}}, Slots: true, Refused: true}
	st, g := limit.State{}.Grant(ask, t0)
	if g.Slots.N != 1 || g.SlotsAt.After(t0) || st.Same(limit.State{}) {
		t.Fatalf("the first worker gets %+v", g)
	}
	same, g := st.Grant(ask, t0.Add(900*time.Millisecond))
	next := st.Account.Leased.Add(-500 * time.Millisecond)
	if g.Slots.N != 0 || !g.SlotsAt.Equal(next) || !same.Same(st) {
		t.Errorf("the second worker gets %+v, want to ask again at %v", g, next)
	}
	if told, _ := st.Grant(ask, t0.Add(time.Second)); told.Same(st) || !told.Limited(t0.Add(5*time.Second)) {
		t.Error("the state does not tell again that tasks wait")
	}
	if _, g = st.Grant(ask, next); g.Slots.N != 1 {
		t.Errorf("the worker that asks then gets %+v", g)
	}
}

// Permits are never more than the concurrency, even while workers come, go and freeze, and each worker that wants some gets its
// turn.
func TestPermits(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 7))
		members, concurrency := team(1+r.IntN(8)), 1+r.IntN(6)
		bound, st := task.Limit{Concurrency: concurrency}, limit.State{}
		served := map[string]time.Time{}
		for now := t0; now.Before(t0.Add(time.Minute)); now = now.Add(10 * time.Millisecond) {
			total := 0
			for _, m := range members {
				if m.until.Before(now) {
					m.permits = 0
				}
				if m.running > 0 && r.IntN(10) == 0 {
					m.running--
				}
				if m.running < m.permits {
					m.running++
				}
				if m.running > 0 {
					served[m.name] = now
				}
				total += m.running
				if now.Before(m.asks) {
					continue
				}
				m.asks = now.Add(100 * time.Millisecond)
				var g limit.Grant
				st, g = st.Grant(limit.Ask{Limit: bound, Holder: m.name, Wanted: 8, Running: m.running}, now)
				m.permits, m.until = g.Permits, g.Until
			}
			if total > concurrency {
				t.Fatalf("seed %d: %d run at once, %d may", seed, total, concurrency)
			}
			longest := 4 * time.Second * time.Duration(1+len(members)/concurrency)
			for _, m := range members {
				if last, ok := served[m.name]; now.Sub(t0) > longest && (!ok || now.Sub(last) > longest) {
					t.Fatalf("seed %d: %s of %d has not run for %v, with a concurrency of %d", seed, m.name, len(members), longest, concurrency)
				}
			}
		}
	}
}

// The permits of a worker that ended are others' after they expire, and an idle worker's at once.
func TestPermitsOfOthers(t *testing.T) {
	t.Parallel()
	bound := task.Limit{Concurrency: 4}
	st, g := limit.State{}.Grant(limit.Ask{Limit: bound, Holder: "a", Wanted: 8}, t0)
	if g.Permits != 4 {
		t.Fatalf("a worker alone gets %d permits", g.Permits)
	}
	if _, g = st.Grant(limit.Ask{Limit: bound, Holder: "b", Wanted: 8}, t0.Add(time.Second)); g.Permits != 0 {
		t.Errorf("b gets %d while a has all", g.Permits)
	}
	if _, g = st.Grant(limit.Ask{Limit: bound, Holder: "b", Wanted: 8}, t0.Add(limit.PermitTTL)); g.Permits != 4 {
		t.Errorf("b gets %d after a has ended", g.Permits)
	}
	st, _ = st.Grant(limit.Ask{Limit: bound, Holder: "a", Wanted: 1, Running: 1}, t0.Add(time.Second))
	st, g = st.Grant(limit.Ask{Limit: bound, Holder: "b", Wanted: 8}, t0.Add(time.Second))
	if g.Permits != 3 {
		t.Errorf("b gets %d while a uses one", g.Permits)
	}
	if st, g = st.Grant(limit.Ask{Limit: bound, Holder: "a", Wanted: 8, Running: 1}, t0.Add(time.Second)); g.Permits != 1 {
		t.Errorf("a gets %d while b has three", g.Permits)
	}
	if _, g = st.Grant(limit.Ask{Limit: bound, Holder: "b", Wanted: 8, Running: 1}, t0.Add(time.Second)); g.Permits != 2 {
		t.Errorf("b keeps %d while a wants more, want its half", g.Permits)
	}
}

// The database's clock is set back by an hour, as in a failover to another host. Holders of before are the dead worker's, and those of
// living ones that renew theirs.
func TestHoldersAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	back := t0.Add(-time.Hour)
	for name, c := range map[string]struct {
		concurrency int
		dead        limit.Holder
	}{
		"it had permits":    {4, limit.Holder{Permits: 4, Wanted: 8}},
		"it waited for one": {1, limit.Holder{Wanted: 8}},
	} {
		c.dead.Name, c.dead.Since, c.dead.Until = "dead", t0.Add(-time.Minute), t0.Add(limit.PermitTTL)
		bound, st, g := task.Limit{Concurrency: c.concurrency}, limit.State{Holders: []limit.Holder{c.dead}}, limit.Grant{}
		waited := time.Duration(0)
		for ; g.Permits == 0 && waited < time.Minute; waited += 100 * time.Millisecond {
			st, g = st.Grant(limit.Ask{Limit: bound, Holder: "living", Wanted: 8}, back.Add(waited))
		}
		if waited > 2*limit.PermitTTL {
			t.Errorf("%s: the only living worker waits for %v", name, waited)
		}
	}

	st, _ := limit.State{}.Grant(limit.Ask{Limit: task.Limit{Concurrency: 1}, Holder: "a", Wanted: 8}, t0)
	served := map[string]bool{}
	for at := back; at.Before(back.Add(4 * time.Second)); at = at.Add(100 * time.Millisecond) {
		for _, name := range []string{"a", "b"} {
			var g limit.Grant
			st, g = st.Grant(limit.Ask{Limit: task.Limit{Concurrency: 1}, Holder: name, Wanted: 8}, at)
			served[name] = served[name] || g.Permits > 0
		}
	}
	if !served["a"] || !served["b"] {
		t.Errorf("served are %v: one worker keeps the permit", served)
	}
	if st := (limit.State{LimitedAt: t0}); st.Limited(back) {
		t.Error("the queue counts as limited until the clock has caught up")
	}
}

// Slots that were leased before the clock was set back would come as much later: a worker with enough of them would ask for none.
func TestSlotsAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	rate := task.Rate{Calls: 100, Per: time.Second}
	var s limit.Slots
	lease, account := limit.Next(rate, limit.Account{}, t0, 1)
	for s.Add(lease); lease.N > 0; s.Add(lease) {
		lease, account = limit.Next(rate, account, t0, 1)
	}
	if s.Ready(t0); s.Len() < 50 {
		t.Errorf("%d slots are left of those that come soon", s.Len())
	}
	if s.Ready(t0.Add(-time.Hour)); s.Len() != 0 || s.Lost() != 0 {
		t.Errorf("%d slots are left of those that come in an hour", s.Len())
	}
}

// However many workers want permits, the row holds those that it names, and all have their turn.
func TestMoreWorkersThanARowHolds(t *testing.T) {
	t.Parallel()
	const workers, concurrency = 450, 200
	r := rand.New(rand.NewPCG(1, 7))
	st, served, until := limit.State{}, map[string]bool{}, map[string]time.Time{}
	names := make([]string, workers)
	for i := range names {
		names[i] = task.NewID().String()
	}
	permits := map[string]int{}
	for now := t0.Add(123456789); len(served) < workers; now = now.Add(100 * time.Millisecond) {
		if now.After(t0.Add(2 * time.Minute)) {
			t.Fatalf("%d of %d workers had a permit after %v", len(served), workers, now.Sub(t0))
		}
		for _, i := range r.Perm(workers) {
			name := names[i]
			running := permits[name]
			if until[name].Before(now) {
				running = 0
			}
			var g limit.Grant
			ask := limit.Ask{Limit: task.Limit{Concurrency: concurrency}, Holder: name, Wanted: 12345, Running: running}
			if st, g = st.Grant(ask, now); g.Permits > 0 {
				served[name] = true
			}
			if g.Permits == 0 && running > 0 { // its transactions end at once
				ask.Running = 0
				st, g = st.Grant(ask, now)
			}
			permits[name], until[name] = g.Permits, g.Until
		}
		if text, err := json.Marshal(st.Holders); err != nil || len(text) > 65535 {
			t.Fatalf("%d holders take %d bytes, %v", len(st.Holders), len(text), err)
		}
		total := 0
		for _, h := range st.Holders {
			total += h.Permits
		}
		if total > concurrency {
			t.Fatalf("%d permits are given, %d may be", total, concurrency)
		}
	}
}
