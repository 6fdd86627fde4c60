package offsets

// prefix records which delivered messages of one partition are settled. It counts messages in the order of delivery,
// because a log has gaps between its offsets.
type prefix struct {
	first     int64 // sequence number of slots[0]
	slots     []slot
	delivered int   // messages so far
	next      int64 // offset to read after the settled prefix
	committed int64 // the value of next in the last commit
}

type slot struct {
	offset  int64
	settled bool
}

// deliver appends a message and returns its sequence number.
func (p *prefix) deliver(offset int64) int64 {
	p.slots = append(p.slots, slot{offset: offset})
	p.delivered++
	return p.first + int64(len(p.slots)) - 1
}

// settle marks a message as settled and returns by how many messages the settled prefix grew. Settling a message twice
// does nothing.
func (p *prefix) settle(seq int64) int {
	if seq < p.first {
		return 0
	}
	p.slots[seq-p.first].settled = true
	n := 0
	for n < len(p.slots) && p.slots[n].settled {
		p.next = max(p.next, p.slots[n].offset+1) // race 2
		n++
	}
	if n > 0 {
		p.slots, p.first = p.slots[n:], p.first+int64(n)
	}
	return n
}
