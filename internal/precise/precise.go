// Package precise sleeps to the tenth of a millisecond. Go's own timers wake an idle process up to a millisecond late on
// Linux, since the runtime waits for them in whole milliseconds (runtime/netpoll_epoll.go). A Sleeper is meant for the
// last milliseconds before a moment: nothing can end its sleep early.
package precise

import "time"

// Sleeper sleeps for one goroutine at a time. Close frees its descriptor. A nil Sleeper sleeps by Go's timers.
type Sleeper struct{ timer *kernelTimer }

// New makes a sleeper. It sleeps by Go's timers on systems without kernel timers.
func New() *Sleeper {
	t, err := newKernelTimer()
	if err != nil {
		return &Sleeper{}
	}
	return &Sleeper{timer: t}
}

// Sleep returns after d.
func (s *Sleeper) Sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	began := time.Now()
	if s != nil && s.timer != nil {
		_ = s.timer.wait(d) // after an error Go's timer sleeps the remaining time
	}
	time.Sleep(d - time.Since(began))
}

// Close frees the kernel timer.
func (s *Sleeper) Close() {
	if s.timer != nil {
		_ = s.timer.close() // nothing was written to it
	}
}
