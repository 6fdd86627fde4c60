package offsets

// prefix knows which of the delivered messages of one partition are settled. It counts in the order of delivery, because
// a log has gaps between its offsets.
type prefix struct {
	first     int64 // sequence number of slots[0]
	slots     []slot
	delivered int   // messages, ever
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
	p.delivered++
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
