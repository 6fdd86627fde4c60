package stream

import (
	"context"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// Session is one generation of a consumer group as its member sees it (see the package's doc). It is an alias of an
// unnamed interface so that a stage can declare the same without importing this package.
//
// Partitions returns the assigned partitions, perhaps none. Fetch returns the deliveries that are there, at least one and
// at most 1,000, in offset order within a partition, and waits only while there is none; it returns ErrSessionOver once
// the session was lost, or ctx's error. Commit stores the next offset to read of each partition given; it answers
// ErrSessionOver once the group has moved on, and takes at most three seconds. Lost is closed when the session ends: on
// Kafka when the group's next generation is there, so that a member that can't reach the coordinator goes on with what it
// has. One goroutine may fetch while others commit.
type Session = interface {
	Partitions() []int
	Fetch(ctx context.Context) ([]task.Delivery, error)
	Commit(ctx context.Context, next map[int]int64) error
	Lost() <-chan struct{}
}

// Backlog tells whether a queue's lag can explain that a task has not run yet. It is an alias of an unnamed interface so
// that a stage can declare the same without importing this package.
//
// Explains reports whether the first uncommitted record of the owner's own partition was published at or before the
// moment given. Clear reports whether everything in the owner's own partition is committed. Both answer false for what
// could not be learnt. Partition gives the owner's partition.
type Backlog = interface {
	Explains(owner string, by time.Time) bool
	Clear(owner string) bool
	Partition(owner string) int
}

// record is a message as it came out of a log.
type record struct {
	partition int
	offset    int64
	value     []byte // at most maxValue+1 bytes: one more than can be decoded

	traceparent string // of the call that published it; empty without tracing
}

// rawSession is a session before its messages are understood.
type rawSession interface {
	Session
	take(ctx context.Context, limit int) ([]record, error)
}

const (
	fetchLimit = 1000
	maxValue   = 64 << 10
	maxRaw     = 8 << 10 // bytes kept of a message that can't be decoded
)

// deliveries understands the records of a queue's topic. A message that can't be understood is delivered as such.
func deliveries(recs []record, m *metrics) []task.Delivery {
	out := make([]task.Delivery, len(recs))
	for i, r := range recs {
		d := task.Delivery{Partition: r.partition, Offset: r.offset, Traceparent: r.traceparent}
		if d.Hint, _, d.Err = decodeHint(r.value); d.Err != nil {
			d.Raw = r.value[:min(len(r.value), maxRaw)]
			m.undecodable.WithLabelValues("queue").Inc()
		}
		out[i] = d
	}
	return out
}

// backlog is what both adapters answer.
type backlog struct {
	partitions int
	settled    map[int]bool      // partitions known to have nothing uncommitted
	first      map[int]time.Time // publishing of the first uncommitted record, where there is one and it is known
}

// Explains reports whether the first uncommitted record of the owner's partition was published at or before by.
func (b *backlog) Explains(owner string, by time.Time) bool {
	at, ok := b.first[b.Partition(owner)]
	return ok && !at.After(by)
}

// Clear reports whether everything in the owner's partition is committed.
func (b *backlog) Clear(owner string) bool { return b.settled[b.Partition(owner)] }

// Partition returns the partition of the owner, or of any task.RouteKey.
func (b *backlog) Partition(owner string) int { return partitionOf([]byte(owner), b.partitions) }
