package recur

import (
	"fmt"
	"hash/fnv"
	"math/bits"
	"time"
)

const (
	maxCatchUp = 1000 // tasks made at once
	maxJitter  = 24 * time.Hour
	maxCount   = 1_000_000_000 // also of revisions
)

// CatchUp says for which missed ticks a task is made: ticks that passed while nothing could make one, as in an outage.
type CatchUp int

const (
	// CatchUpLast makes a task for the latest missed tick.
	CatchUpLast CatchUp = 0
	// CatchUpSkip makes none.
	CatchUpSkip CatchUp = -1
)

// CatchUpAll makes a task for each missed tick, for the latest n (1 to 1000) if more were missed. Check refuses any
// other n.
func CatchUpAll(n int) CatchUp {
	if n < 1 {
		return CatchUpSkip - 1
	}
	return CatchUp(n)
}

func (c CatchUp) limit() int {
	switch c {
	case CatchUpLast:
		return 1
	case CatchUpSkip:
		return 0
	}
	return int(c)
}

// Overlap says what becomes of the ticks that pass while the task of an earlier tick runs, or waits for its retry.
type Overlap int

const (
	// OverlapSkip makes no task for them.
	OverlapSkip Overlap = iota
	// OverlapBufferOne makes a task for the latest of them, when the earlier task has ended.
	OverlapBufferOne
	// OverlapAllow makes their tasks beside the earlier one.
	OverlapAllow
)

// Policy says for which ticks of a timetable a task is made, and when the task is due.
type Policy struct {
	CatchUp  CatchUp       // default CatchUpLast
	Window   time.Duration // missed ticks that are older are skipped; 0 = none is too old
	Overlap  Overlap       // default OverlapSkip
	Jitter   time.Duration // a task is due up to this long after its tick, at most 24 h
	Start    time.Time     // no tick before it; zero = no start
	End      time.Time     // no tick at it or after it; zero = no end
	Count    int           // tasks to make; 0 = no limit
	Revision int           // of the whole definition: one with a smaller number never replaces it
}

// Check returns a FieldError for a value outside its limits.
func (p Policy) Check() error {
	switch {
	case p.CatchUp < CatchUpSkip || p.CatchUp > maxCatchUp:
		return &FieldError{"catch_up", fmt.Sprintf("must be last, skip, or all with 1 to %d", maxCatchUp)}
	case p.Window < 0 || p.Window > maxEvery:
		return &FieldError{"window", "must be 0 (none) to 10 years"}
	case p.Overlap < OverlapSkip || p.Overlap > OverlapAllow:
		return &FieldError{"overlap", "must be skip, buffer one or allow"}
	case p.Jitter < 0 || p.Jitter > maxJitter:
		return &FieldError{"jitter", fmt.Sprintf("must be 0 to %s", maxJitter)}
	case !p.End.IsZero() && !p.Start.Before(p.End):
		return &FieldError{"end", "must be after the start"}
	case p.Count < 0 || p.Count > maxCount:
		return &FieldError{"count", fmt.Sprintf("must be 0 (no limit) to %d", maxCount)}
	case p.Revision < 0 || p.Revision > maxCount:
		return &FieldError{"revision", fmt.Sprintf("must be 0 to %d", maxCount)}
	}
	return nil
}

// Delay returns how long after the tick its task is due: whole milliseconds below the jitter. The same recurrence and
// tick have the same delay on every host and in every version.
func (p Policy) Delay(recurrence string, tick time.Time) time.Duration {
	if p.Jitter <= 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write(fmt.Appendf(nil, "%s\x00%d", recurrence, tick.UnixMilli()))
	// FNV leaves the high bits of texts that end alike close together. These are MurmurHash3's final steps.
	n := h.Sum64()
	n = (n ^ n>>33) * 0xff51afd7ed558ccd
	n = (n ^ n>>33) * 0xc4ceb9fe1a85ec53
	jitter := uint64(p.Jitter.Milliseconds()) //nolint:gosec // above 0
	high, _ := bits.Mul64(n^n>>33, jitter)
	return time.Duration(high) * time.Millisecond //nolint:gosec // high is below the jitter
}
