package broker

import (
	"sync"
	"time"
)

const gatherTime = time.Millisecond // the first item of a flush waits this long for others

// gatherer gathers the items that callers add within gatherTime.
type gatherer[T any] struct {
	flush func(items []T) // on a goroutine of its own

	mu      sync.Mutex
	waiting []T
}

// add takes an item. Items that come within gatherTime of the first waiting item are flushed with it.
func (g *gatherer[T]) add(item T) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting = append(g.waiting, item); len(g.waiting) > 1 {
		return
	}
	time.AfterFunc(gatherTime, func() {
		g.mu.Lock()
		items := g.waiting
		g.waiting = nil
		g.mu.Unlock()
		g.flush(items)
	})
}
