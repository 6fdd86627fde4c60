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
			e.Settled, e.Result = true, Limited
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

// A slot is given back by a hint whose handler was not called, and by a far one whose task was not put off.
func TestOwnerSlotsAreGivenBack(t *testing.T) {
	t.Parallel()
	h := New(localClock())
	h.SetLimit(task.Limit{OwnerRate: task.Rate{Calls: 1, Per: time.Hour}})
	h.Add(numbered(1, "ann", h.clock.Now()))
	var far time.Time
	for i, want := range []struct{ far, isLater, used bool }{
		{}, {}, {used: true}, {far: true}, {far: true, used: true}, {far: true, isLater: true},
	} {
		h.Add(numbered(uint64(i)+2, "ann", h.clock.Now()))
		taken, _ := h.takeDue(LaneBatch, 1)
		if len(taken) != 1 || taken[0].Far != want.far {
			t.Fatalf("take %d: %v, want far: %v", i, taken, want.far)
		}
		e := taken[0]
		if e.Far && far.IsZero() {
			far = e.OwnerSlot
		}
		if later := e.OwnerSlot.Sub(far) > 30*time.Minute; e.Far && later != want.isLater {
			t.Errorf("take %d: the slot comes %v after the first far one", i, e.OwnerSlot.Sub(far))
		}
		e.Settled, e.Called = true, want.used && !e.Far
		if e.Result = "already_done"; want.used && e.Far {
			e.Result = Limited
		}
		h.Release(taken)
		if !e.OwnerSlot.IsZero() {
			t.Errorf("take %d: the hint keeps its slot", i)
		}
	}
}
