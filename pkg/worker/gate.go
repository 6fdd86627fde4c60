package worker

import (
	"context"
	"sync"
	"time"
)

const (
	pauseLeast = 100 * time.Millisecond
	pauseMost  = 2 * time.Second
)

// gate is closed while MySQL is away: nobody fetches or takes, and nothing is charged or let go.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // closed while the gate is open
	closes int           // since a batch last got through
	paused time.Time     // when it was closed
}

func newGate() *gate {
	g := &gate{opened: make(chan struct{})}
	close(g.opened)
	return g
}

// close makes everybody wait; it answers false when the gate was closed already.
func (g *gate) close(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isOpen() {
		return false
	}
	g.opened, g.paused = make(chan struct{}), now
	g.closes++
	return true
}

// open lets everybody through again.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isOpen() {
		close(g.opened)
	}
}

// works forgets the past pauses: a transaction got through.
func (g *gate) works() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closes = 0
}

// rest is when to probe a closed gate: later and later when MySQL answers probes but no transaction gets through, as on
// a replica that is read-only.
func (g *gate) rest(now time.Time) (closed bool, wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isOpen() {
		return false, 0
	}
	pause := pauseLeast
	for i := 1; i < g.closes && pause < pauseMost; i++ {
		pause *= 2
	}
	return true, min(pause, pauseMost) - now.Sub(g.paused)
}

func (g *gate) isOpen() bool {
	select {
	case <-g.opened:
		return true
	default:
		return false
	}
}

// wait returns when the gate is open, with an error when ctx ended first.
func (g *gate) wait(ctx context.Context) error {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	select {
	case <-opened:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// again starts the rest of a closed gate anew, after a probe that failed.
func (g *gate) again(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.paused = now
}
