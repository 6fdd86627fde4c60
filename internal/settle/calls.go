package settle

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/duetime/duetime/internal/protocol"
)

// maxCalls bounds what one report of a process says.
const maxCalls = 100

// calls are the calls of handlers that have not returned, those of abandoned handlers too.
type calls struct {
	mu      sync.Mutex
	running map[*running]struct{}
}

// running is one call.
type running struct {
	protocol.Call // without SinceMs

	began time.Time
}

func (c *calls) enter(r *running) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		c.running = map[*running]struct{}{}
	}
	c.running[r] = struct{}{}
}

func (c *calls) leave(r *running) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, r)
}

func (c *calls) list() []*running {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*running, 0, len(c.running))
	for r := range c.running {
		all = append(all, r)
	}
	return all
}

// Calls returns what runs, the longest first.
func (s *Settler) Calls() []protocol.Call {
	all := s.calls.list()
	slices.SortFunc(all, func(a, b *running) int { return cmp.Or(a.began.Compare(b.began), a.Task.Compare(b.Task)) })
	now := s.clock.Now()
	said := make([]protocol.Call, min(len(all), maxCalls))
	for i := range said {
		said[i] = all[i].Call
		said[i].SinceMs = now.Add(-time.Since(all[i].began)).UnixMilli()
	}
	return said
}
