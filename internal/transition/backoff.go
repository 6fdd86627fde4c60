package transition

import (
	"math/rand/v2"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// RetryDelay draws the wait after the attempt of this number (1 = the first) failed: at least a millisecond, at most Max.
func RetryDelay(b task.Backoff, attempt int) time.Duration {
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
