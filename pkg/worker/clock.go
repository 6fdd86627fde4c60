package worker

import (
	"slices"
	"sync"
	"time"
)

// clockWindow is how long a probe counts. Within it the fastest one wins, because a probe knows the database's time
// only to within half of its round trip.
const clockWindow = 30 * time.Second

// clock tells the database's time: the local monotonic clock plus an offset learnt from probes alone. An answer of a
// statement that may have waited for a lock would teach an offset wrong by that wait.
type clock struct {
	start time.Time // with its monotonic reading; the wall clock may be set at any moment after

	mu      sync.RWMutex
	offset  time.Duration // database − local
	samples []sample      // of the last clockWindow
}

type sample struct {
	at     time.Duration // since start
	round  time.Duration
	offset time.Duration
}

func newClock() *clock { return &clock{start: time.Now()} }

// local is the wall clock at start carried on by the monotonic clock.
func (c *clock) local() time.Time { return c.start.Round(0).Add(time.Since(c.start)) }

// now gives the database's time as learnt; the local time before the first probe.
func (c *clock) now() time.Time {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.local().Add(c.offset).UTC()
}

// learn takes the answer of one probe, which left at the local time sent and came back by received.
func (c *clock) learn(sent, received, answer time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	round := received.Sub(sent)
	s := sample{at: received.Sub(c.start.Round(0)), round: round, offset: answer.Sub(sent.Add(round / 2))}
	c.samples = slices.DeleteFunc(c.samples, func(old sample) bool { return s.at-old.at >= clockWindow })
	c.samples = append(c.samples, s)
	best := s
	for _, other := range c.samples {
		if other.round < best.round {
			best = other
		}
	}
	c.offset = best.offset
}

// gap is how far the database's clock is ahead of this machine's wall clock.
func (c *clock) gap() time.Duration { return c.now().Sub(time.Now().Round(0)) }
