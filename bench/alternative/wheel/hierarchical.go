package wheel

import "math/bits"

const (
	levelBits = 8 // 256 slots a level: 256 ms, 65 s, 4.7 h, 50 days, 35 years, 8,900 years
	levels    = 6
	levelMask = 1<<levelBits - 1
)

// hierarchical has a wheel for each byte of the time. A timer stands on the level of the highest byte in which its tick
// differs from now, and comes down a level (at most five times) when that byte becomes equal.
type hierarchical struct {
	now    int64
	levels [levels][levelMask + 1]slot
}

func newHierarchical(now int64) *hierarchical { return &hierarchical{now: now} }

func (w *hierarchical) add(t *timer) {
	t.tick = max(t.tick, w.now+1)
	w.place(t)
}

func (w *hierarchical) place(t *timer) {
	level := max(bits.Len64(uint64(t.tick^w.now))-1, 0) / levelBits //nolint:gosec // both are positive
	w.slot(level, t.tick).add(t)
}

func (w *hierarchical) slot(level int, tick int64) *slot {
	return &w.levels[level][tick>>(level*levelBits)&levelMask]
}

func (w *hierarchical) advance(to int64) []*timer {
	var due []*timer
	for w.now < to {
		w.now++
		w.cascade()
		s := w.slot(0, w.now)
		due = append(due, *s...)
		*s = nil
	}
	return due
}

// cascade brings down what stands on the slots that now begin, highest level first.
func (w *hierarchical) cascade() {
	for level := min(bits.TrailingZeros64(uint64(w.now))/levelBits, levels-1); level > 0; level-- { //nolint:gosec // positive
		s := w.slot(level, w.now)
		down := *s
		*s = nil
		for _, t := range down {
			w.place(t)
		}
	}
}
