package hold

import (
	"container/heap"
	"slices"
	"time"
)

// owner is the queue of an owner who is with a runner, or was and has hints left here. While the owner is with a runner, its
// hints that are met wait here. Once the runner is back, one hint of each lane stands in the lane for all behind it, and the
// next one follows when that one is taken: however many hints an owner has, a runner that comes or goes moves a few.
type owner struct {
	since   time.Time  // when the runner took what it has
	free    bool       // no runner has the owner
	waiting []timeline // by lane; nil while none has waited
}

// park puts a hint aside until the runner is back.
func (o *owner) park(e *Hint, l Lane) {
	if o.waiting == nil {
		o.waiting = make([]timeline, Lanes)
	}
	heap.Push(&o.waiting[l], e)
}

// occupy gives the owner to a runner that took a hint of the lane, and has the next hint advance into the lane.
func (h *Hold) occupy(o *owner, name string, l Lane, now time.Time) {
	switch {
	case o == nil:
		h.owners[name] = &owner{since: now}
		return
	case o.free:
		o.free, o.since = false, now
	}
	h.advance(o, l)
}

// advance moves the owner's next hint into the lane.
func (h *Hold) advance(o *owner, l Lane) {
	if o.waiting != nil && len(o.waiting[l]) > 0 {
		h.push(pop(&o.waiting[l]))
	}
}

// vacate takes the owner back from its runner.
func (h *Hold) vacate(name string) {
	if o := h.owners[name]; o != nil && !o.free {
		o.free = true
		h.represent(name, o)
	}
}

// represent has a hint of a free owner in each lane in which others wait behind it, and forgets an owner without any.
func (h *Hold) represent(name string, o *owner) {
	for l := range o.waiting {
		h.advance(o, Lane(l))
	}
	for l := range o.waiting {
		if len(o.waiting[l]) > 0 {
			return
		}
	}
	delete(h.owners, name)
}

// busy returns the owner if it is with a runner.
func (h *Hold) busy(name string) *owner {
	if o := h.owners[name]; o != nil && !o.free {
		return o
	}
	return nil
}

// eachTimeline calls fn with each timeline that has hints, and with its lane; shared says that runners take from it.
func (h *Hold) eachTimeline(fn func(line *timeline, l Lane, shared bool)) {
	for l := range h.lanes {
		fn(&h.lanes[l], Lane(l), true)
	}
	for _, o := range h.owners {
		for l := range o.waiting {
			if len(o.waiting[l]) > 0 {
				fn(&o.waiting[l], Lane(l), false)
			}
		}
	}
}

// remove takes the waiting hints out that match, and gives each to removed.
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
	for name, o := range h.owners {
		if o.free {
			h.represent(name, o) // the hint that stood for others may have been removed
		}
	}
}
