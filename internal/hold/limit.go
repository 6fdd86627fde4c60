package hold

import (
	"time"

	"github.com/duetime/duetime/internal/limit"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/pkg/task"
)

// soon is how long before their moment hints count as demand: their slots are leased by then.
const soon = 100 * time.Millisecond

// allowance is what a worker may hand out of its queue's limit. The hold's lock guards it.
type allowance struct {
	limit    task.Limit
	slots    limit.Slots
	permits  int       // transactions that may run
	until    time.Time // the permits expire
	running  int       // transactions: takes that were not released yet
	refused  time.Time // when a due hint was last not handed out because of the limit
	ended    bool      // the last transaction settled hints without any call: their tasks had ended or moved, and others may have
	probe    bool      // the take under way is to find such tasks: its hints get no slots
	asked    chan struct{}
	ofOwners *limit.OwnerSlots // nil: the queue has no rate for each owner
}

// Demand is what a hold could hand out.
type Demand struct {
	Due     bool // a hint is due, or will be soon
	Refused bool // a due hint waits for the limit
	Slots   int  // in stock
	Running int  // transactions
}

// SetLimit sets the queue's limit: nothing is handed out beyond what Allow has allowed.
func (h *Hold) SetLimit(l task.Limit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.allowed.limit == l {
		return
	}
	if h.allowed.limit.Rate != l.Rate {
		h.allowed.slots = limit.Slots{}
	}
	if h.allowed.limit.OwnerRate != l.OwnerRate {
		h.allowed.ofOwners = limit.NewOwnerSlots(l.OwnerRate)
	}
	h.allowed.limit, h.allowed.refused = l, time.Time{}
	h.signalAll()
}

// Limit returns what SetLimit has set.
func (h *Hold) Limit() task.Limit {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.allowed.limit
}

// Allow adds slots, and sets the permits until they expire.
func (h *Hold) Allow(slots limit.Lease, permits int, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := &h.allowed
	a.slots.Add(slots)
	a.permits, a.until = permits, until
	h.signalAll()
}

// LostSlots returns how many slots no call has used in their time, since the last call.
func (h *Hold) LostSlots() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.allowed.slots.Lost()
}

// Demanded receives when a hint could not be handed out because of the limit.
func (h *Hold) Demanded() <-chan struct{} { return h.allowed.asked }

// Demand returns what the hold could hand out.
func (h *Hold) Demand() Demand {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, a := h.clock.Now(), &h.allowed
	d := Demand{Slots: a.slots.Len(), Running: a.running}
	if now.Before(h.paused) {
		return d
	}
	for l := range h.lanes {
		if at, ok := h.nextOf(Lane(l)); ok {
			d.Due = d.Due || !at.After(now.Add(soon))
			d.Refused = d.Refused || !at.After(now) && !a.refused.Before(at)
		}
	}
	return d
}

// room returns how many of n hints may be handed out now, and when to look next if none may. A probe needs no slots.
func (a *allowance) room(n int, now time.Time) (room int, retry time.Time) {
	retry = now.Add(idleWait)
	if a.limit.Concurrency > 0 && (a.running >= a.permits || now.After(a.until)) {
		return 0, retry
	}
	if a.limit.Rate == (task.Rate{}) {
		return n, retry
	}
	room = min(n, a.slots.Ready(now))
	if a.probe = a.ended && room < n; a.probe {
		return n, retry
	}
	if first, ok := a.slots.First(); ok {
		retry = first
	}
	return room, retry
}

// refuse records that a hint that is due at this moment has to wait, and asks for more.
func (a *allowance) refuse(at time.Time) {
	a.refused = at
	loop.Rouse(a.asked)
}

// admit reports whether the hint may be handed out by the rate of its owner: to run, or to be put off to its slot. One whose slot is near
// waits for it in the hold.
func (a *allowance) admit(e *Hint, now time.Time) bool {
	if e.OnlyLook = a.ofOwners != nil && !e.Behind.IsZero(); a.ofOwners == nil || e.OnlyLook {
		return true
	}
	if !e.hasSlot() || !a.ofOwners.Holds(e.OwnerSlot, now) {
		e.OwnerSlot, e.Far = a.ofOwners.Take(e.Owner, e.visit(), now)
		e.spent, e.OwnerWait = false, time.Time{}
	}
	if e.Far || !e.OwnerSlot.After(now) {
		return true
	}
	e.LookAt, e.OwnerWait = e.OwnerSlot, e.OwnerSlot
	return false
}

func (h *Hint) hasSlot() bool { return !h.OwnerSlot.IsZero() && !h.spent }

// visit is how often the hint's task has come for a slot, by its version: each time that it was put off, tried or moved it has got another.
func (h *Hint) visit() limit.Visit {
	switch {
	case h.Version > 2 || !h.OwnerSlot.IsZero():
		return limit.Later
	case h.Version == 2:
		return limit.Second
	}
	return limit.First
}

// spend takes what the hint's call needs of the limit.
func (a *allowance) spend(e *Hint, now time.Time) {
	e.Called, e.NoSlot, e.AllowedAt = false, false, time.Time{}
	switch {
	case e.Far: // it does not run
	case a.limit.Rate != (task.Rate{}) && a.probe:
		e.NoSlot = true
	case a.limit.Rate != (task.Rate{}):
		e.AllowedAt = a.slots.Take()
	case a.limit.Concurrency > 0 && !a.refused.Before(e.LookAt):
		e.AllowedAt = now
	}
}

// release gives back what the hints of a transaction did not use.
func (a *allowance) release(taken []*Hint, now time.Time) {
	if len(taken) == 0 {
		return
	}
	a.running--
	a.releaseOwnerSlots(taken)
	if a.limit.Rate == (task.Rate{}) {
		return
	}
	settled, called := false, false
	for _, e := range taken {
		settled, called = settled || e.Settled, called || e.Called
		if !e.Called && !e.AllowedAt.IsZero() {
			a.slots.Refund(e.AllowedAt, now)
		}
	}
	a.ended = settled && !called
}

// releaseOwnerSlots gives back the slots of tasks that ended without a call, or wait for another one. A hint that is held for another reason
// keeps its slot, unless its handler was called: the lane where it runs may be what it waits for.
func (a *allowance) releaseOwnerSlots(taken []*Hint) {
	if a.ofOwners == nil {
		return
	}
	for _, e := range taken {
		switch {
		case !e.hasSlot():
		case e.Far && e.Version > 1 && e.Result != Limited:
			a.ofOwners.RefundFar(e.Owner)
		case !e.Far && !e.Called && (e.Settled || e.Dropped || !e.Behind.IsZero()):
			a.ofOwners.Refund(e.Owner)
		case !e.Far && !e.Called:
			continue
		}
		e.spent = true
	}
}

func (h *Hold) signalAll() {
	for l := range h.wake {
		h.signal(Lane(l))
	}
}
