package hold

import (
	"container/heap"
	"slices"
	"time"
)

// owner keeps the parked hints of one owner. While the owner is with a runner, all its due hints are parked. Once the
// runner has released the owner, one hint of each lane goes back to the lane, and the next one follows when a runner
// takes that one: however many hints an owner has, a Take or Release moves only a few.
type owner struct {
	since  time.Time // when the runner took the owner
	free   bool      // no runner has the owner
	parked []lines   // by lane; nil while no hint was parked
}

// park puts a hint aside until the runner has released the owner.
func (o *owner) park(e *Hint, l Lane) {
	if o.parked == nil {
		o.parked = make([]lines, Lanes)
	}
	o.parked[l].push(e)
}

// assignOwner gives the owner to a runner that took a hint of the lane, and moves the owner's next hint into the lane.
func (h *Hold) assignOwner(o *owner, name string, l Lane, now time.Time) {
	switch {
	case o == nil:
		h.owners[name] = &owner{since: now}
		return
	case o.free:
		o.free, o.since = false, now
	}
	h.advance(o, l, now)
}

// advance moves the owner's next hint into the lane.
func (h *Hold) advance(o *owner, l Lane, now time.Time) {
	if o.parked != nil && !o.parked[l].empty() {
		h.push(o.parked[l].pop(now))
	}
}

// freeOwner takes the owner back from its runner.
func (h *Hold) freeOwner(name string, now time.Time) {
	if o := h.owners[name]; o != nil && !o.free {
		o.free = true
		h.advanceAll(name, o, now)
	}
}

// freeOwners frees the owners of the taken hints. An owner of half of them or more is freed only after the next take, so that the
// due hints of others come first: however many of its hints are due, they delay others by one take.
func (h *Hold) freeOwners(taken []*Hint, now time.Time) {
	hints := map[string]int{}
	for _, e := range taken {
		hints[e.Owner]++
	}
	for name, n := range hints {
		if 2*n >= len(taken) {
			h.resting = append(h.resting, name)
			continue
		}
		h.freeOwner(name, now)
	}
}

// wakeOwners frees the owners that rest, and reports whether there were any.
func (h *Hold) wakeOwners(now time.Time) bool {
	resting := h.resting
	h.resting = nil
	for _, name := range resting {
		h.freeOwner(name, now)
	}
	return len(resting) > 0
}

// advanceAll moves the next hint of each lane of a free owner into its lane, and forgets an owner without parked hints.
func (h *Hold) advanceAll(name string, o *owner, now time.Time) {
	for l := range o.parked {
		h.advance(o, Lane(l), now)
	}
	if !slices.ContainsFunc(o.parked, func(l lines) bool { return !l.empty() }) {
		delete(h.owners, name)
	}
}

// ownerInHand returns the owner if it is with a runner.
func (h *Hold) ownerInHand(name string) *owner {
	if o := h.owners[name]; o != nil && !o.free {
		return o
	}
	return nil
}

// eachTimeline calls fn with each lane's timeline, and with each timeline of parked hints. shared says that runners take
// from the timeline.
func (h *Hold) eachTimeline(fn func(line *timeline, l Lane, shared bool)) {
	each := func(all *lines, l Lane, shared bool) {
		for i := range all {
			if len(all[i]) > 0 {
				fn(&all[i], l, shared)
			}
		}
	}
	for l := range h.lanes {
		each(&h.lanes[l], Lane(l), true)
	}
	for _, o := range h.owners {
		for l := range o.parked {
			each(&o.parked[l], Lane(l), false)
		}
	}
}

// remove removes the matching hints that wait, and calls removed with each.
func (h *Hold) remove(match func(*Hint) bool, removed func(*Hint)) {
	h.eachTimeline(func(line *timeline, _ Lane, _ bool) {
		before := len(*line)
		*line = slices.DeleteFunc(*line, func(s heapItem) bool {
			if !match(s.Hint) {
				return false
			}
			delete(h.byKey, s.key())
			removed(s.Hint)
			return true
		})
		if len(*line) != before {
			heap.Init(line)
		}
	})
	now := h.clock.Now()
	for name, o := range h.owners {
		if o.free {
			h.advanceAll(name, o, now) // the owner's hint in the lane may have been removed
		}
	}
}
