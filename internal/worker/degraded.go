package worker

import "time"

const (
	lookInterval     = time.Second           // between looks in good health
	degradedInterval = 50 * time.Millisecond // between looks that stand in for hints, of at most membersPerRound workers
	membersPerRound  = 5
	maxRounds        = 20
	calm             = 5 * time.Second // without news, then hints are trusted again
)

// mode says whether looks stand in for a queue's hints. Looks begin to when one has news: a due task that no hint had brought,
// although the worker was free. They end when none has had news for a while.
type mode struct {
	degraded bool
	news     time.Time // the last, on the local clock: the database's may be set back
}

// after returns the mode after a look, at a moment of the local clock.
func (m mode) after(news bool, now time.Time) mode {
	if news {
		return mode{degraded: true, news: now}
	}
	if m.degraded && now.Sub(m.news) > calm {
		return mode{}
	}
	return m
}

// interval returns the time to the next look. Many workers look less often each.
func (m mode) interval(members int) time.Duration {
	if !m.degraded {
		return lookInterval
	}
	return degradedInterval * time.Duration(min(max(1, members/membersPerRound), maxRounds))
}

// ahead returns how long before their moment a look takes tasks: two intervals, so that a look that is put off misses none.
func (m mode) ahead(members int) time.Duration {
	if !m.degraded {
		return 0
	}
	return 2 * m.interval(members)
}
