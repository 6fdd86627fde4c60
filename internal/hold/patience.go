package hold

import (
	"container/heap"
	"time"
)

const (
	// RetryInterval is the time until the next look at a row that somebody has locked.
	RetryInterval = 100 * time.Millisecond

	unchargedFactor = 12          // multiplies the patience of a hint whose failure is not charged yet: race 2
	minClockStep    = time.Second // a database clock that gains more than this on the local clock was set forward
)

// Expire settles, without a look at their rows, the waiting hints that were stuck for longer than patience. It returns
// their number.
func (h *Hold) Expire(patience time.Duration) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, n := h.clock.Now(), 0
	h.endPause(now)
	h.wakeOwners(now)
	h.remove(func(e *Hint) bool {
		allowed := patience
		if e.Failure.Err != nil || e.Losses > 0 {
			allowed *= unchargedFactor
		}
		return now.Sub(e.PatientSince) > allowed && h.stuck(e, now, allowed)
	}, func(e *Hint) { e.settle(); n++ })
	return n
}

// stuck reports whether looks can't settle the hint, or its owner's runner doesn't release the owner. A hint that only
// waits for a runner is not stuck: nobody has looked at it since its LookAt went by.
func (h *Hold) stuck(e *Hint, now time.Time, patience time.Duration) bool {
	if o := h.ownerInHand(e.Owner); o != nil {
		return now.Sub(o.since) > patience
	}
	return e.Looks > 0 && now.Sub(e.LookAt) < 2*RetryInterval
}

// ResetPatience begins the patience of every waiting hint anew, after a time in which hints could not be settled.
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

// AdjustForClockStep re-times held hints if the database's clock was stepped since the last call: race 3.
func (h *Hold) AdjustForClockStep(patience time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last, lastLocal := h.adjusted, h.adjustedLocal
	h.adjusted, h.adjustedLocal = h.clock.Now(), h.clock.Local()
	switch step := h.adjusted.Sub(last) - h.adjustedLocal.Sub(lastLocal); {
	case last.IsZero():
	case step > minClockStep:
		h.resetPatience()
	case h.adjusted.Before(last):
		h.recall(patience)
	}
}

// recall makes hints due now that would wait for longer than patience. No hint is ever put off that long, so the clock
// was set back since.
func (h *Hold) recall(patience time.Duration) {
	now := h.clock.Now()
	h.retime(func(e *Hint) bool {
		recalled := e.LookAt.Sub(now) > patience
		if recalled {
			e.LookAt, e.PatientSince = now, now
		}
		return recalled
	})
}

// retime calls change with each waiting hint, which reports whether it has changed the hint's LookAt.
func (h *Hold) retime(change func(*Hint) bool) {
	h.eachTimeline(func(line *timeline, l Lane, shared bool) {
		changed := false
		for i, s := range *line {
			if change(s.Hint) {
				(*line)[i], changed = itemOf(s.Hint), true
			}
		}
		if changed {
			heap.Init(line)
		}
		if changed && shared {
			h.signal(l)
		}
	})
}
