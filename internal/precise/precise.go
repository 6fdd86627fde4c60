// Package precise sleeps to the tenth of a millisecond. Go's own timers wake an idle process up to a millisecond late on
// Linux, since the runtime waits for them in whole milliseconds (runtime/netpoll_epoll.go). It is meant for the last
// milliseconds before a moment: it can't be woken before.
package precise

import "time"

// Sleeper sleeps for one goroutine at a time. Close gives its descriptor back; a nil Sleeper sleeps by Go's timers.
type Sleeper struct{ alarm *alarm }

// New makes a sleeper, which sleeps by Go's timers where the system has nothing better.
func New() *Sleeper {
	a, err := newAlarm()
	if err != nil {
		return &Sleeper{}
	}
	return &Sleeper{alarm: a}
}

// Sleep returns after d.
func (s *Sleeper) Sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	began := time.Now()
	if s != nil && s.alarm != nil {
		_ = s.alarm.wait(d) // what is left after an error is slept by Go's timers
	}
	time.Sleep(d - time.Since(began))
}

// Close gives back what New took.
func (s *Sleeper) Close() {
	if s.alarm != nil {
		_ = s.alarm.close() // nothing was written to it
	}
}
