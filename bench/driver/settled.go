package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/duetime/duetime/bench/queue"
)

const (
	// watchEvery bounds how much later than it was a commit is seen.
	watchEvery = 10 * time.Millisecond
	// watchLong is how long after the last sign of life a queue is still asked so often, and watchIdle how often it is
	// looked for signs then: an idle process must not pay for being measured.
	watchLong = time.Second
	watchIdle = 250 * time.Millisecond
)

// settled follows what a queue commits by itself.
type settled struct {
	queue       queue.Settler
	count, last atomic.Int64
}

// watch asks until ctx ends, while handlers begin or effects commit.
func (s *settled) watch(ctx context.Context, e *queue.Effects) {
	next := time.NewTimer(watchEvery)
	defer next.Stop()
	var begun int64
	var alive time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-next.C:
			if started, _, _ := e.Seen(); started != begun {
				begun, alive = started, now
			}
			if now.Sub(alive) > watchLong {
				next.Reset(watchIdle)
				continue
			}
			if s.look() {
				alive = now
			}
			next.Reset(watchEvery)
		}
	}
}

// look asks once and tells whether there was anything new.
func (s *settled) look() bool {
	n := s.queue.Settled()
	if n == s.count.Load() {
		return false
	}
	s.last.Store(time.Now().UnixMicro())
	s.count.Store(n)
	return true
}
