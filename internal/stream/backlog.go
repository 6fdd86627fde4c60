package stream

import (
	"context"
	"fmt"
	"time"
)

// backlogTimeout bounds the requests of Backlog and Lag to the brokers.
const backlogTimeout = 3 * time.Second

// Backlog tells whether a queue's lag can explain that a task has not run yet. It is an alias of an unnamed interface so
// that a stage can declare the same interface without importing this package.
//
// Explains reports whether the first uncommitted record of the owner's own partition was published at or before the given
// moment. Clear reports whether everything in the owner's own partition is committed. Both return false if the brokers
// did not tell. Partition returns the owner's partition.
type Backlog = interface {
	Explains(owner string, by time.Time) bool
	Clear(owner string) bool
	Partition(owner string) int
}

// backlog is what one call of Backlog found.
type backlog struct {
	partitions int
	committed  map[int]bool      // partitions without uncommitted records
	first      map[int]time.Time // when the first uncommitted record was published, if that is known
}

// Explains reports whether the first uncommitted record of the owner's partition was published at or before by.
func (b *backlog) Explains(owner string, by time.Time) bool {
	at, ok := b.first[b.Partition(owner)]
	return ok && !at.After(by)
}

// Clear reports whether everything in the owner's partition is committed.
func (b *backlog) Clear(owner string) bool { return b.committed[b.Partition(owner)] }

// Partition returns the partition of the owner, or of any protocol.RouteKey.
func (b *backlog) Partition(owner string) int { return partitionOf([]byte(owner), b.partitions) }

// Backlog reads what the queue's group has not committed yet, within three seconds. A partition that did not answer
// explains nothing.
func (k *Kafka) Backlog(ctx context.Context, queue string) (Backlog, error) {
	ctx, cancel := context.WithTimeout(ctx, backlogTimeout)
	defer cancel()
	sub := k.names.queue(queue)
	partitions, spans, err := k.broker.Uncommitted(ctx, sub.topic, sub.group)
	if err != nil {
		return nil, fmt.Errorf("backlog of %s: %w", queue, err)
	}
	b := &backlog{partitions: partitions, committed: map[int]bool{}, first: map[int]time.Time{}}
	firsts := map[int]int64{}
	for partition, span := range spans {
		if span.From < span.To {
			firsts[partition] = span.From
		} else {
			b.committed[partition] = true
		}
	}
	for p, r := range k.broker.RecordsAt(ctx, sub.topic, firsts) {
		if _, at, err := decodeHint(r.Value); err == nil && !at.IsZero() { // a record without a moment explains nothing
			b.first[p] = at
		}
	}
	return b, nil
}

// Lag returns how many of the queue's hints its group has not committed yet, within three seconds; an error if a
// partition did not answer.
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
