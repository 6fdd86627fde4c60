package worker

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// prefix knows which of the delivered messages of one partition are settled. It counts in the order of delivery, because
// a log has gaps between its offsets.
type prefix struct {
	first     int64 // sequence number of slots[0]
	slots     []slot
	next      int64 // offset to read after the settled prefix
	committed int64 // next as last committed
}

type slot struct {
	offset  int64
	settled bool
}

// deliver appends a message and gives its sequence number.
func (p *prefix) deliver(offset int64) int64 {
	p.slots = append(p.slots, slot{offset: offset})
	return p.first + int64(len(p.slots)) - 1
}

// settle marks a message and gives by how many the settled prefix grew. Settling twice is harmless.
func (p *prefix) settle(seq int64) int {
	if seq < p.first {
		return 0
	}
	p.slots[seq-p.first].settled = true
	n := 0
	for n < len(p.slots) && p.slots[n].settled {
		p.next = max(p.next, p.slots[n].offset+1) // a message read twice must not rewind the group
		n++
	}
	if n > 0 {
		p.slots, p.first = p.slots[n:], p.first+int64(n)
	}
	return n
}

// mark is one message that waits for a hint to be settled. It outlives its generation harmlessly.
type mark struct {
	gen       *generation
	partition int
	seq       int64
}

// generation tracks what one session delivered. Once it is over nothing of it is committed any more: the partitions are
// somebody else's, and a late commit could rewind their group or skip what they are working on.
type generation struct {
	since time.Time    // of the database's clock: what was due before may have been running when the last owner died
	clean map[int]bool // partitions that their last owner left with nothing running; never changed
	dirty chan struct{}

	sending     sync.Mutex // held while a commit is under way
	mu          sync.Mutex
	session     Session
	partitions  map[int]*prefix
	delivered   map[int]int // messages by partition, to tell the first ones
	uncommitted int
	over        bool
	room        chan struct{} // closed and replaced when uncommitted falls
}

func newGeneration(s Session, since time.Time) *generation {
	return &generation{
		since: since, session: s, dirty: make(chan struct{}, 1), room: make(chan struct{}),
		partitions: map[int]*prefix{}, delivered: map[int]int{},
	}
}

// deliver takes note of a message, and tells how many of its partition came before it.
func (g *generation) deliver(partition int, offset int64) (mark, int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.partitions[partition]
	if p == nil {
		p = &prefix{}
		g.partitions[partition] = p
	}
	before := g.delivered[partition]
	g.delivered[partition]++
	g.uncommitted++
	return mark{gen: g, partition: partition, seq: p.deliver(offset)}, before
}

// settle marks the message as needing no more work.
func (m mark) settle() {
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
	select {
	case g.dirty <- struct{}{}:
	default:
	}
}

// waitRoom returns when fewer than limit messages are uncommitted.
func (g *generation) waitRoom(ctx context.Context, limit int) error {
	for {
		g.mu.Lock()
		room, full := g.room, g.uncommitted >= limit
		g.mu.Unlock()
		if !full {
			return ctx.Err()
		}
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// end forbids any further commit.
func (g *generation) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
}

// progress returns the offsets that moved since they were last committed.
func (g *generation) progress() map[int]int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	next := map[int]int64{}
	for id, p := range g.partitions {
		if p.next > p.committed && !g.over {
			next[id] = p.next
		}
	}
	return next
}

// commit sends what moved. What could not be sent is sent with the next commit. Calls wait for one another, so that an
// older offset never arrives after a newer one.
func (g *generation) commit(ctx context.Context) error {
	g.sending.Lock()
	defer g.sending.Unlock()
	next := g.progress()
	if len(next) == 0 {
		return nil
	}
	if err := g.session.Commit(ctx, next); err != nil {
		return fmt.Errorf("commit offsets of %d partitions: %w", len(next), err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, offset := range next {
		g.partitions[id].committed = offset
	}
	return nil
}
