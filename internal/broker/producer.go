package broker

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
)

const (
	produceTries      = 4                     // a new topic has no leader for a moment
	produceRetryDelay = 50 * time.Millisecond // before the second try; doubled before each further one
)

// producer sends the messages of a millisecond in one request to each broker, whatever their partitions. The library's
// own writer makes one request for each partition. If few messages are due at a time, it makes nearly one request for
// each message, and a small request costs the broker as much as a large one. A message is taken once all in-sync replicas
// have it.
type producer struct {
	client    *kafka.Client
	partition func(key []byte, n int) int
	keyless   atomic.Uint32 // messages without a key so far: they go to the partitions in turn
	writes    gatherer[*pendingWrite]
	limits    sizeLimits
}

func newProducer(k *kafka.Client, partition func(key []byte, n int) int) *producer {
	p := &producer{client: k, partition: partition}
	p.writes.flush = func(writes []*pendingWrite) {
		// Calls end by their own timeouts, not with a caller: a message in flight is never withdrawn.
		ctx := context.Background()
		p.deliver(ctx, p.pack(ctx, writes), 1)
	}
	return p
}

// write returns when each message was taken or refused. It returns one error or nil for each message.
func (p *producer) write(topic string, messages []Message) []error {
	w := &pendingWrite{topic: topic, messages: messages, errs: make([]error, len(messages)), done: make(chan struct{})}
	p.writes.add(w)
	<-w.done
	return w.errs
}

// pack sorts messages into batches by their partitions. It refuses messages of a missing topic.
func (p *producer) pack(ctx context.Context, writes []*pendingWrite) []*partitionBatch {
	var batches []*partitionBatch
	open, partitions := map[topicPartition]*partitionBatch{}, map[string]int{}
	for _, w := range writes {
		w.batches.Store(1) // until all its messages are packed
	}
	for _, w := range writes {
		if partitions[w.topic] == 0 {
			n, err := countPartitions(ctx, p.client, w.topic)
			if err != nil {
				copy(w.errs, slices.Repeat([]error{err}, len(w.errs)))
				continue
			}
			partitions[w.topic] = n
		}
		limit := p.limits.of(w.topic)
		for i := range w.messages {
			m := &w.messages[i]
			size := sizeOf(m)
			if limit.refuses(size) {
				w.errs[i] = Permanent(kafka.MessageSizeTooLarge)
				continue
			}
			at := topicPartition{w.topic, p.place(m, partitions[w.topic])}
			b := open[at]
			if b == nil || b.bytes+size > limit.maxBatch() {
				b = &partitionBatch{topicPartition: at}
				open[at] = b
				batches = append(batches, b)
			}
			b.add(w, i, size)
		}
	}
	for _, w := range writes {
		w.batchDone()
	}
	return batches
}

// place returns the partition of a message.
func (p *producer) place(m *Message, partitions int) int {
	if m.Key == nil {
		return int(p.keyless.Add(1)-1) % partitions
	}
	return p.partition(m.Key, partitions)
}

// deliver sends each broker one request with all its batches, or several requests if one would be too large.
func (p *producer) deliver(ctx context.Context, batches []*partitionBatch, try int) {
	requests, leaderless := p.plan(ctx, batches)
	for _, batches := range requests {
		go func() {
			p.send(ctx, batches)
			p.conclude(ctx, batches, try)
		}()
	}
	p.conclude(ctx, leaderless, try)
}

// conclude finishes the batches that were taken, or refused permanently. It retries the others in a request of their own.
func (p *producer) conclude(ctx context.Context, batches []*partitionBatch, try int) {
	var retried []*partitionBatch
	for _, b := range batches {
		tooLarge := errors.Is(b.err, kafka.MessageSizeTooLarge)
		if tooLarge {
			p.limits.recordRefusal(b)
		}
		switch {
		case tooLarge && len(b.items) > 1:
			go p.deliver(ctx, b.halves(), try) // the topic may have a smaller limit than others, or refuse a single message
		case try < produceTries && isTransient(b.err):
			retried = append(retried, b)
		default:
			if tooLarge {
				b.err = Permanent(b.err)
			}
			b.finish()
		}
	}
	if len(retried) > 0 {
		time.AfterFunc(produceRetryDelay<<(try-1), func() { p.deliver(ctx, retried, try+1) })
	}
}

// isTransient reports whether a later try may succeed with the same batch.
func isTransient(err error) bool {
	var refused kafka.Error
	return err != nil && (!errors.As(err, &refused) || refused.Temporary())
}
