package offsets

import (
	"context"
	"sync"

	"github.com/duetime/duetime/internal/loop"
)

// Committer stores the next offset to read of each partition. It refuses commits once the generation is over.
type Committer interface {
	Commit(ctx context.Context, next map[int]int64) error
}

// Generation tracks the messages of one membership of a consumer group.
type Generation struct {
	committer Committer
	dirty     chan struct{} // a prefix grew since the last commit

	sending     sync.Mutex // held while a commit is under way
	mu          sync.Mutex
	partitions  map[int]*prefix
	uncommitted int // messages delivered and not in a settled prefix
	over        bool
	room        chan struct{} // closed and replaced when uncommitted falls
}

// NewGeneration begins a generation whose offsets are committed to c.
func NewGeneration(c Committer) *Generation {
	return &Generation{
		committer: c, dirty: make(chan struct{}, 1), room: make(chan struct{}), partitions: map[int]*prefix{},
	}
}

// Mark is one message that waits for its hint to be settled. Settling it after its generation is over does nothing.
type Mark struct {
	gen       *Generation
	partition int
	seq       int64
}

// Generation returns the generation that delivered the message.
func (m Mark) Generation() *Generation { return m.gen }

// Partition returns the partition that the message came from.
func (m Mark) Partition() int { return m.partition }

// Deliver counts a message, and returns how many messages of its partition came before.
func (g *Generation) Deliver(partition int, offset int64) (_ Mark, before int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.partitions[partition]
	if p == nil {
		p = &prefix{}
		g.partitions[partition] = p
	}
	before = p.delivered
	g.uncommitted++
	return Mark{gen: g, partition: partition, seq: p.deliver(offset)}, before
}

// Settle records that the message needs no more work.
func (m Mark) Settle() {
	g := m.gen
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.partitions[m.partition].settle(m.seq)
	if g.over || n == 0 {
		return
	}
	g.uncommitted -= n
	close(g.room)
	g.room = make(chan struct{})
	loop.Rouse(g.dirty)
}

// Uncommitted returns how many messages are not covered by a settled prefix.
func (g *Generation) Uncommitted() int {
	n, _ := g.uncommittedAndRoom()
	return n
}

func (g *Generation) uncommittedAndRoom() (int, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.uncommitted, g.room
}

// WaitRoom returns when fewer than limit messages are uncommitted.
func (g *Generation) WaitRoom(ctx context.Context, limit int) error {
	for {
		n, room := g.uncommittedAndRoom()
		if n < limit {
			return ctx.Err()
		}
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// End forbids any further commit.
func (g *Generation) End() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
}
