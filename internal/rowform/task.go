package rowform

import "time"

// Latest returns the latest of the moments.
func Latest(first time.Time, others ...time.Time) time.Time {
	for _, t := range others {
		if t.After(first) {
			first = t
		}
	}
	return first
}
