package worker

import (
	"container/heap"
	"slices"
	"time"
)

// owned is the queue of an owner who is with a runner, or was and has hints left here. While the owner is with a runner, its
// hints that are met wait here. Once the runner is back, one hint of each lane stands in the lane for all behind it, and the
// next follows when that one is taken: however many hints an owner has, a runner that comes or goes moves a few.
type owned struct {
	since   time.Time  // when the runner took what it has
	free    bool       // no runner has the owner
	waiting []timeline // by lane; nil while none has waited
}

// park puts a hint aside until the runner is back.
func (o *owned) park(e *held, l lane) {
	if o.waiting == nil {
		o.waiting = make([]timeline, lanes)
	}
	heap.Push(&o.waiting[l], e)
}

// occupy gives the owner to a runner that took a hint of the lane, and has the next hint advance into the lane.
func (h *hold) occupy(o *owned, owner string, l lane, now time.Time) {
	switch {
	case o == nil:
		h.busy[owner] = &owned{since: now}
		return
	case o.free:
		o.free, o.since = false, now
	}
	h.advance(o, l)
}

// advance moves the owner's next hint into the lane.
func (h *hold) advance(o *owned, l lane) {
	if o.waiting != nil && len(o.waiting[l]) > 0 {
		h.push(pop(&o.waiting[l]))
	}
}

// vacate takes the owner back from its runner.
func (h *hold) vacate(owner string) {
	if o := h.busy[owner]; o != nil && !o.free {
		o.free = true
		h.represent(owner, o)
	}
}

// represent has a hint of a free owner in each lane in which others wait behind it, and forgets an owner without any.
func (h *hold) represent(owner string, o *owned) {
	for l := range o.waiting {
		h.advance(o, lane(l))
	}
	for l := range o.waiting {
		if len(o.waiting[l]) > 0 {
			return
		}
	}
	delete(h.busy, owner)
}

// isBusy reports whether the owner is with a runner.
func (h *hold) isBusy(owner string) bool {
	o := h.busy[owner]
	return o != nil && !o.free
}

// lines calls fn with each timeline that has hints, and tells its lane if it is one that runners take from.
func (h *hold) lines(fn func(line *timeline, l lane, taken bool)) {
	for l := range h.lanes {
		fn(&h.lanes[l], lane(l), true)
	}
	for _, o := range h.busy {
		for l := range o.waiting {
			if len(o.waiting[l]) > 0 {
				fn(&o.waiting[l], lane(l), false)
			}
		}
	}
}

// sweep removes the waiting hints that match.
func (h *hold) sweep(match func(*held) bool, remove func(*held)) {
	h.lines(func(line *timeline, _ lane, _ bool) {
		before := len(*line)
		*line = slices.DeleteFunc(*line, func(s turn) bool {
			if !match(s.held) {
				return false
			}
			remove(s.held)
			return true
		})
		if len(*line) != before {
			heap.Init(line)
		}
	})
	for owner, o := range h.busy {
		if o.free {
			h.represent(owner, o) // what stood for others may be gone
		}
	}
}
