package task

import "time"

// Backoff times the tries after a failure: a random time up to Min·2ⁿ⁻¹ after the n-th, never above Max (full jitter,
// so that tasks that failed together don't come back together).
type Backoff struct {
	Min time.Duration // upper bound of the first wait; default 1 s
	Max time.Duration // upper bound of every wait; default 10 min
}

// DefaultBackoff is what a kind has unless it says otherwise.
var DefaultBackoff = Backoff{Min: time.Second, Max: 10 * time.Minute}
