package stream

import (
	"sync"
	"time"
)

const gatherFor = time.Millisecond // how long what comes waits for more

// gathering brings together what comes at about the same time. Its zero value is empty.
type gathering[T any] struct {
	mu      sync.Mutex
	waiting []T
}

// add hands all that comes within gatherFor of the first to the flush of the first.
func (g *gathering[T]) add(one T, flush func(all []T)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting = append(g.waiting, one); len(g.waiting) > 1 {
		return
	}
	time.AfterFunc(gatherFor, func() {
		g.mu.Lock()
		all := g.waiting
		g.waiting = nil
		g.mu.Unlock()
		flush(all)
	})
}
