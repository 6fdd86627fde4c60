package broker

import (
	"sync"
	"time"
)

const gatherTime = time.Millisecond // the first item of a flush waits as long for others

// gatherer brings together the items that come at about the same time.
type gatherer[T any] struct {
	flush func(items []T) // on a goroutine of its own

	mu      sync.Mutex
	waiting []T
}

// add hands an item over. Whatever comes within gatherTime of the first waiting item is flushed with it.
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
