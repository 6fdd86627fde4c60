package broker

import (
	"context"
	"sync"
)

const (
	refillRecords = 500     // records of a partition below which its reader fetches more
	maxInboxBytes = 8 << 20 // of all partitions; from here on no reader fetches more
	recordBytes   = 100     // that a record takes beside its value, about
)

// inbox holds the records that the readers of a session's partitions fetched until the session's one consumer takes them.
// A reader may put all records of one fetch at once; it then waits for awaitRoom.
type inbox struct {
	mu     sync.Mutex
	queues []inboxQueue
	bytes  int           // of all records
	first  int           // the queue that is served first; the next one at each take
	ready  chan struct{} // holds a token after a put
}

type inboxQueue struct {
	records []Record
	room    chan struct{} // holds a token after a take
}

func newInbox(partitions int) *inbox {
	b := &inbox{queues: make([]inboxQueue, partitions), ready: make(chan struct{}, 1)}
	for i := range b.queues {
		b.queues[i].room = make(chan struct{}, 1)
	}
	return b
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// put appends records to a queue.
func (b *inbox) put(queue int, records []Record) {
	b.mu.Lock()
	b.queues[queue].records = append(b.queues[queue].records, records...)
	b.bytes += bytesOf(records)
	b.mu.Unlock()
	signal(b.ready)
}

func bytesOf(records []Record) (n int) {
	for _, r := range records {
		n += recordBytes + len(r.Value) + len(r.Header)
	}
	return n
}

// awaitRoom returns once the queue has fewer than refillRecords records and all queues have fewer than maxInboxBytes, or with ctx's
// error.
func (b *inbox) awaitRoom(ctx context.Context, queue int) error {
	for {
		b.mu.Lock()
		room := len(b.queues[queue].records) < refillRecords && b.bytes < maxInboxBytes
		b.mu.Unlock()
		if room {
			return ctx.Err()
		}
		select {
		case <-b.queues[queue].room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take returns the available records, at least one; it waits while there is none.
func (b *inbox) take(ctx context.Context, over <-chan struct{}, limit int) ([]Record, error) {
	for {
		select {
		case <-over:
			return nil, ErrSessionOver
		default:
		}
		if out := b.takeNow(limit); len(out) > 0 {
			return out, nil
		}
		select {
		case <-b.ready:
		case <-over:
			return nil, ErrSessionOver
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// takeNow takes an equal share of each queue first, then fills up from any queue.
func (b *inbox) takeNow(limit int) []Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	waiting := 0
	for i := range b.queues {
		if len(b.queues[i].records) > 0 {
			waiting++
		}
	}
	if waiting == 0 {
		return nil
	}
	out := b.takeFromEach(nil, max(1, limit/waiting), limit)
	out = b.takeFromEach(out, limit, limit)
	b.bytes -= bytesOf(out)
	for i := range b.queues {
		signal(b.queues[i].room)
	}
	b.first = (b.first + 1) % len(b.queues)
	return out
}

// takeFromEach appends at most share records of each queue, up to limit records in all.
func (b *inbox) takeFromEach(out []Record, share, limit int) []Record {
	for i := range b.queues {
		q := &b.queues[(b.first+i)%len(b.queues)]
		n := min(len(q.records), share, limit-len(out))
		if n <= 0 {
			continue
		}
		out = append(out, q.records[:n]...)
		q.records = q.records[n:]
		if len(q.records) == 0 {
			q.records = nil
		}
	}
	return out
}
