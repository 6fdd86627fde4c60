package hold

import (
	"fmt"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/limit"
	"github.com/duetime/duetime/pkg/task"
)

// due fills a hold with hints that are due, each of an owner of its own.
func due(n int, kinds ...task.KindInfo) *Hold {
	h := New(localClock(), kinds...)
	for i := range n {
		h.Add(numbered(uint64(i), fmt.Sprint(i), h.clock.Now().Add(-time.Minute)))
	}
	return h
}

func TestRateHandsOutOneHintASlot(t *testing.T) {
	t.Parallel()
	h := due(10)
	h.SetLimit(task.Limit{Rate: task.Rate{Calls: 1, Per: time.Hour}})
	if taken, wait := h.takeDue(LaneBatch, 10); len(taken) > 0 || wait < time.Minute {
		t.Fatalf("without slots %d are handed out, the next look is in %v", len(taken), wait)
	}
	select {
	case <-h.Demanded():
	default:
		t.Error("nobody is told that slots are needed")
	}
	if d := h.Demand(); !d.Due || !d.Refused || d.Slots != 0 {
		t.Errorf("the demand is %+v", d)
	}
	h.Allow(limit.Lease{From: h.clock.Now(), N: 3}, 0, time.Time{})
	taken, _ := h.takeDue(LaneBatch, 10)
	if len(taken) != 3 {
		t.Fatalf("%d are handed out for 3 slots", len(taken))
	}
	for _, e := range taken {
		if h.clock.Now().Sub(e.AllowedAt) > time.Minute {
			t.Errorf("the hint was allowed at %v", e.AllowedAt)
		}
	}
	taken[0].Called, taken[0].Settled, taken[1].Settled = true, true, true
	h.Release(taken)
	if d := h.Demand(); d.Slots != 2 {
		t.Errorf("%d slots are left, want those of two hints without a call", d.Slots)
	}
	h.SetLimit(task.Limit{})
	if taken, _ := h.takeDue(LaneBatch, 10); len(taken) != 8 || !taken[0].AllowedAt.IsZero() {
		t.Errorf("%d are handed out without a limit, want 8 that were not delayed", len(taken))
	}
}

// A hint that is refused just ahead of its moment waits for the limit from then on, though nobody looks at it again.
func TestRefusedAheadOfItsMoment(t *testing.T) {
	t.Parallel()
	h := New(localClock())
	h.SetLimit(task.Limit{Rate: task.Rate{Calls: 1, Per: time.Hour}})
	h.Add(numbered(1, "ann", h.clock.Now().Add(TakeAhead)))
	if taken, _ := h.takeDue(LaneBatch, 1); len(taken) > 0 {
		t.Fatal("a hint is handed out without a slot")
	}
	time.Sleep(2 * TakeAhead)
	if d := h.Demand(); !d.Refused {
		t.Errorf("the demand is %+v", d)
	}
}

// After a hint whose task has ended, takes probe for more of them, without slots. Other hints keep their places.
func TestProbeForEndedTasks(t *testing.T) {
	t.Parallel()
	h := due(10)
	h.SetLimit(task.Limit{Rate: task.Rate{Calls: 1, Per: time.Hour}})
	h.Allow(limit.Lease{From: h.clock.Now(), Step: time.Hour, N: 1}, 0, time.Time{})
	take := func(noSlot bool, ids ...byte) []*Hint {
		t.Helper()
		taken, _ := h.takeDue(LaneBatch, 4)
		var got []byte
		for _, e := range taken {
			got = append(got, e.ID[15])
			if e.NoSlot != noSlot || e.AllowedAt.IsZero() != noSlot {
				t.Errorf("hint %d: NoSlot is %v, allowed at %v", e.ID[15], e.NoSlot, e.AllowedAt)
			}
		}
		if string(got) != string(ids) {
			t.Fatalf("taken are %v, want %v", got, ids)
		}
		return taken
	}
	first := take(false, 0)
	first[0].Settled = true
	h.Release(first)
	second := take(true, 1, 2, 3, 4)
	second[0].Settled, second[2].Settled = true, true
	h.Release(second)
	h.Release(take(true, 2, 4, 5, 6)) // no ended task among them
	third := take(false, 2)
	third[0].Called, third[0].Settled = true, true
	h.Release(third)
	take(false)
}

func TestPermitsBoundTransactions(t *testing.T) {
	t.Parallel()
	h := due(10)
	h.SetLimit(task.Limit{Concurrency: 2})
	h.Allow(limit.Lease{}, 2, h.clock.Now().Add(time.Hour))
	first, _ := h.takeDue(LaneBatch, 3)
	second, _ := h.takeDue(LaneSingle, 1)
	if len(second) > 0 {
		t.Fatal("a hint of the other lane was there")
	}
	second, _ = h.takeDue(LaneBatch, 3)
	third, _ := h.takeDue(LaneBatch, 3)
	if len(first) != 3 || len(second) != 3 || len(third) != 0 {
		t.Fatalf("%d, %d and %d hints are handed out with two permits", len(first), len(second), len(third))
	}
	if d := h.Demand(); d.Running != 2 || !d.Refused {
		t.Errorf("the demand is %+v", d)
	}
	h.Release(first)
	if third, _ = h.takeDue(LaneBatch, 3); len(third) != 3 || third[0].AllowedAt.IsZero() {
		t.Errorf("%d are handed out after a transaction ended", len(third))
	}
	h.Release(second)
	h.Allow(limit.Lease{}, 2, h.clock.Now().Add(-time.Millisecond))
	if taken, _ := h.takeDue(LaneBatch, 3); len(taken) > 0 {
		t.Errorf("%d are handed out after the permits expired", len(taken))
	}
}

func TestHighPriorityIsHandedOutFirst(t *testing.T) {
	t.Parallel()
	h := New(localClock(), task.KindInfo{Name: "push", Priority: task.High}, task.KindInfo{Name: "report", Priority: task.Low})
	at := h.clock.Now().Add(-time.Minute)
	for i, kind := range []string{"report", "mail", "push", "report", "push", "mail"} {
		e := numbered(uint64(i), "ann", at.Add(time.Duration(i)*time.Second)) // one owner: its hints are parked meanwhile
		e.Kind = kind
		h.Add(e)
	}
	later := numbered(9, "bob", h.clock.Now().Add(time.Hour))
	later.Kind = "push"
	h.Add(later)
	var got []byte
	for {
		taken, _ := h.takeDue(LaneBatch, 1)
		if len(taken) == 0 {
			break
		}
		if more, _ := h.takeDue(LaneBatch, 1); len(more) > 0 {
			t.Fatal("two runners have hints of one owner")
		}
		got = append(got, taken[0].ID[15])
		taken[0].Settled = true
		h.Release(taken)
	}
	if want := []byte{2, 4, 1, 5, 0, 3}; string(got) != string(want) {
		t.Errorf("the order is %v, want %v", got, want)
	}
}

// An owner with many due hints delays another owner's later one by one take, with one runner too.
func TestCrowdedOwnerDelaysOthersOnce(t *testing.T) {
	t.Parallel()
	h := New(localClock())
	at := h.clock.Now().Add(-time.Hour)
	for i := range 10_000 {
		h.Add(numbered(uint64(i), "crowd", at))
	}
	first, _ := h.takeDue(LaneBatch, 100)
	h.Add(numbered(20_000, "ann", h.clock.Now()))
	for _, e := range first {
		e.Settled = true
	}
	h.Release(first)
	if second := h.Take(t.Context(), LaneBatch, 100); len(second) != 1 || second[0].Owner != "ann" {
		t.Errorf("the next take has %d hints and begins with one of %s", len(second), second[0].Owner)
	}
	if third := h.Take(t.Context(), LaneBatch, 100); len(third) != 100 || third[0].Owner != "crowd" {
		t.Errorf("the third take has %d hints", len(third))
	}
}
