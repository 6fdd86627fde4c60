package stream

import (
	"context"
	"fmt"
	"time"

	"github.com/duetime/duetime/internal/broker"
)

// backlogTimeout bounds what Backlog and Lag ask the brokers.
const backlogTimeout = 3 * time.Second

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

// backlog is what both adapters answer.
type backlog struct {
	partitions int
	settled    map[int]bool      // partitions known to have nothing uncommitted
	first      map[int]time.Time // publishing of the first uncommitted record, where there is one and it is known
}

func newBacklog(partitions int) *backlog {
	return &backlog{partitions: partitions, settled: map[int]bool{}, first: map[int]time.Time{}}
}

// addFirst takes in the first uncommitted record of its partition. One that says no moment explains nothing.
func (b *backlog) addFirst(r broker.Record) {
	if _, at, err := decodeHint(r.Value); err == nil && !at.IsZero() {
		b.first[r.Partition] = at
	}
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

// Backlog tells what the queue's group has not committed yet, within three seconds. A partition of which something
// could not be learnt explains nothing.
func (k *Kafka) Backlog(ctx context.Context, queue string) (Backlog, error) {
	ctx, cancel := context.WithTimeout(ctx, backlogTimeout)
	defer cancel()
	sub := k.names.queue(queue)
	partitions, spans, err := k.broker.Uncommitted(ctx, sub.topic, sub.group)
	if err != nil {
		return nil, fmt.Errorf("backlog of %s: %w", queue, err)
	}
	b, firsts := newBacklog(partitions), map[int]int64{}
	for partition, span := range spans {
		if span.From < span.To {
			firsts[partition] = span.From
		} else {
			b.settled[partition] = true
		}
	}
	for _, r := range k.broker.RecordsAt(ctx, sub.topic, firsts) {
		b.addFirst(r)
	}
	return b, nil
}

// Lag returns how many of the queue's hints its group has not committed yet, within three seconds; an error where not
// every partition answered.
func (k *Kafka) Lag(ctx context.Context, queue string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, backlogTimeout)
	defer cancel()
	sub := k.names.queue(queue)
	partitions, spans, err := k.broker.Uncommitted(ctx, sub.topic, sub.group)
	if err != nil {
		return 0, fmt.Errorf("lag of %s: %w", queue, err)
	}
	if len(spans) < partitions {
		return 0, fmt.Errorf("lag of %s: %d of %d partitions don't answer", queue, partitions-len(spans), partitions)
	}
	var lag int64
	for _, span := range spans {
		lag += span.To - span.From
	}
	return lag, nil
}
