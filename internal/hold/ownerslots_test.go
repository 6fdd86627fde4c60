package hold

import (
	"testing"
	"time"

	"github.com/duetime/duetime/internal/limit"
	"github.com/duetime/duetime/pkg/task"
)

// Of an owner's due hints one is handed out to run, those with near slots wait for them, and the others are handed out to be put off. Another
// owner's hint runs at once.
func TestOwnerRate(t *testing.T) {
	t.Parallel()
	h := New(localClock())
	h.SetLimit(task.Limit{OwnerRate: task.Rate{Calls: 4, Per: time.Second}})
	for i := range uint64(20) {
		h.Add(numbered(i, "ann", h.clock.Now()))
	}
	h.Add(numbered(20, "bob", h.clock.Now()))
	taken, wait := h.takeDue(LaneBatch, 100)
	far, run := 0, map[string]int{}
	for _, e := range taken {
		switch {
		case e.OwnerSlot.IsZero():
			t.Errorf("hint %d has no slot", e.ID[15])
		case e.Far:
			far++
			e.Settled = true
		default:
			run[e.Owner]++
			e.Settled, e.Called = true, true
		}
	}
	if far < 14 || far > 16 || run["ann"] != 1 || run["bob"] != 1 || len(taken) != far+2 {
		t.Errorf("%d of %d are far, these run: %v", far, len(taken), run)
	}
	if wait <= 0 || wait > time.Second {
		t.Errorf("the next slot comes in %v", wait)
	}
	h.Release(taken)
	if n := h.Len(); n != 21-len(taken) {
		t.Errorf("%d hints wait for their slots", n)
	}
	h.SetLimit(task.Limit{})
	h.Add(numbered(30, "cat", h.clock.Now()))
	taken, _ = h.takeDue(LaneBatch, 100)
	if last := taken[len(taken)-1]; last.Owner != "cat" || !last.OwnerSlot.IsZero() {
		t.Errorf("without a rate %s's hint has the slot %v", last.Owner, last.OwnerSlot)
	}
}

// A worker that stood still does not run at once what waited for slots meanwhile.
func TestOwnerSlotsThatWereMissed(t *testing.T) {
	t.Parallel()
	a := allowance{ofOwners: limit.NewOwnerSlots(task.Rate{Calls: 10, Per: time.Second})}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var waits []*Hint
	for range 10 {
		e := numbered(1, "ann", now)
		if !a.admit(e, now) {
			waits = append(waits, e)
		}
	}
	run := 0
	for _, e := range waits {
		if a.admit(e, now.Add(5*time.Second)) && !e.Far {
			run++
		}
	}
	if len(waits) < 8 || run > 2 {
		t.Errorf("%d waited for slots, %d of them ran at once after five seconds", len(waits), run)
	}
}

// A slot is given back by a hint that was settled without a call, and kept by one that is held.
func TestOwnerSlotsAreGivenBack(t *testing.T) {
	t.Parallel()
	h := New(localClock())
	h.SetLimit(task.Limit{OwnerRate: task.Rate{Calls: 1, Per: time.Hour}})
	take := func(wantFar bool) *Hint {
		t.Helper()
		taken, _ := h.takeDue(LaneBatch, 1)
		if len(taken) != 1 || taken[0].Far != wantFar {
			t.Fatalf("taken are %v, want one that is far: %v", taken, wantFar)
		}
		return taken[0]
	}
	h.Add(numbered(1, "ann", h.clock.Now()))
	ended := take(false)
	ended.Settled = true
	h.Release([]*Hint{ended})

	h.Add(numbered(2, "ann", h.clock.Now()))
	held := take(false)
	h.Release([]*Hint{held})
	if e := take(false); e != held {
		t.Fatalf("hint %d is taken in place of the one that was held", e.ID[15])
	}
	held.Called = true
	h.Release([]*Hint{held})
	take(true) // the handler was called, and the hint was not settled: the next call needs another slot
}
