package rowform

import "time"

// MaxUnixMs is in 2039: beyond it a score would not be exact.
const MaxUnixMs = int64(1)<<41 - 1

// CeilMs rounds up to the millisecond that the row holds: rounding down would fire early.
func CeilMs(t time.Time) time.Time {
	t = t.UTC()
	ms := t.Truncate(time.Millisecond)
	if ms.Before(t) {
		ms = ms.Add(time.Millisecond)
	}
	return ms
}
