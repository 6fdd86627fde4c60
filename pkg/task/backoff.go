package task

import (
	"math/rand/v2"
	"time"
)

// Backoff times the tries after a failure: a random time up to Min·2ⁿ⁻¹ after the n-th, never above Max (full jitter,
// so that tasks that failed together don't come back together).
type Backoff struct {
	Min time.Duration // upper bound of the first wait; default 1 s
	Max time.Duration // upper bound of every wait; default 10 min
}

// DefaultBackoff is what a kind has unless it says otherwise.
var DefaultBackoff = Backoff{Min: time.Second, Max: 10 * time.Minute}

// Delay draws the wait after the attempt of this number (1 = the first) failed: at least a millisecond, at most Max.
func (b Backoff) Delay(attempt int) time.Duration {
	bound := min(b.Min, b.Max)
	for i := 1; i < attempt && bound < b.Max; i++ {
		if bound > b.Max/2 {
			bound = b.Max // doubling could overflow
			break
		}
		bound *= 2
	}
	bound = max(bound, time.Millisecond)
	return time.Millisecond + rand.N(bound-time.Millisecond+1) //nolint:gosec // jitter needs no secrecy
}
