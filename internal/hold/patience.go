package hold

import (
	"container/heap"
	"time"
)

const (
	// RetryInterval is the time until the next look at a row that somebody held.
	RetryInterval = 100 * time.Millisecond

	unchargedFactor = 12          // how many times longer a hint is kept whose failure is not charged yet: race 2
	clockStep       = time.Second // by how much more the database's clock must have moved than the local one to have been set
)

// Expire settles, unlooked at, the waiting hints that have been stuck for longer than patience, and returns their number.
func (h *Hold) Expire(patience time.Duration) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, n := h.clock.Now(), 0
	h.remove(func(e *Hint) bool {
		allowed := patience
		if e.Failure.Err != nil || e.Losses > 0 {
			allowed *= unchargedFactor
		}
		return now.Sub(e.PatientSince) > allowed && h.stuck(e, now, allowed)
	}, func(e *Hint) { e.settle(); n++ })
	return n
}

// stuck tells a hint that looks can't settle, or whose owner's runner doesn't come back, from one that waits for a runner: the
// moment of that one has gone by, and nobody has looked since.
func (h *Hold) stuck(e *Hint, now time.Time, patience time.Duration) bool {
	if o := h.busy(e.Owner); o != nil {
		return now.Sub(o.since) > patience
	}
	return e.Looks > 0 && now.Sub(e.LookAt) < 2*RetryInterval
}

// ResetPatience gives every waiting hint its patience anew, after a pause that was no fault of the hints.
func (h *Hold) ResetPatience() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.resetPatience()
}

func (h *Hold) resetPatience() {
	now := h.clock.Now()
	h.eachTimeline(func(line *timeline, _ Lane, _ bool) {
		for _, s := range *line {
			if s.PatientSince.Before(now) {
				s.PatientSince = now
			}
		}
	})
	for _, o := range h.owners {
		o.since = now
	}
}

// AdjustForClockStep re-times held hints if the database's clock was stepped since the last call.
func (h *Hold) AdjustForClockStep(patience time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last, lastLocal := h.adjusted, h.adjustedLocal
	h.adjusted, h.adjustedLocal = h.clock.Now(), h.clock.Local()
	switch step := h.adjusted.Sub(last) - h.adjustedLocal.Sub(lastLocal); {
	case last.IsZero():
	case step > clockStep:
		h.resetPatience()
	case h.adjusted.Before(last):
		h.recall(patience)
	}
}

// recall has those hints looked at now that would wait for longer than patience: none is ever put off that long, so the clock
// was set back since.
func (h *Hold) recall(patience time.Duration) {
	now := h.clock.Now()
	h.eachTimeline(func(line *timeline, l Lane, shared bool) {
		recalled := false
		for i, s := range *line {
			if s.LookAt.Sub(now) > patience {
				s.LookAt, s.PatientSince, recalled = now, now, true
				(*line)[i] = itemOf(s.Hint)
			}
		}
		if recalled {
			heap.Init(line)
		}
		if recalled && shared {
			h.signal(l)
		}
	})
}
