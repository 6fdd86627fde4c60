package broker

import (
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
)

const (
	maxBatchBytes = 512 << 10 // of one partition in one request; a broker takes 1 MiB
	overheadBytes = 128       // of a record beside its key, value and headers, at most
)

// pendingWrite is one caller's messages. It is done when all batches with its messages are done, even if others retry.
type pendingWrite struct {
	topic    string
	messages []Message
	errs     []error      // per message
	batches  atomic.Int32 // batches that are not done, and one more until all messages are packed
	done     chan struct{}
}

func (w *pendingWrite) batchDone() {
	if w.batches.Add(-1) == 0 {
		close(w.done)
	}
}

// topicPartition is a message's destination.
type topicPartition struct {
	topic     string
	partition int
}

// partitionBatch has the messages of one partition in one request.
type partitionBatch struct {
	topicPartition
	items  []batchItem
	writes []*pendingWrite // to which the messages belong
	bytes  int
	err    error // of the last try
}

// batchItem is a message, and where its caller reads its error.
type batchItem struct {
	message *Message
	err     *error
}

func (b *partitionBatch) add(w *pendingWrite, i, bytes int) {
	b.items = append(b.items, batchItem{&w.messages[i], &w.errs[i]})
	b.bytes += bytes
	if len(b.writes) == 0 || b.writes[len(b.writes)-1] != w {
		b.writes = append(b.writes, w)
		w.batches.Add(1)
	}
}

// halves returns two batches of the same messages, in place of b.
func (b *partitionBatch) halves() []*partitionBatch {
	middle := len(b.items) / 2
	halves := []*partitionBatch{
		{topicPartition: b.topicPartition, items: b.items[:middle], writes: b.writes},
		{topicPartition: b.topicPartition, items: b.items[middle:], writes: b.writes},
	}
	for _, half := range halves {
		for _, item := range half.items {
			half.bytes += sizeOf(item.message)
		}
	}
	for _, w := range b.writes {
		w.batches.Add(1) // two halves replace one batch
	}
	return halves
}

// finish gives the outcome to the callers.
func (b *partitionBatch) finish() {
	for _, item := range b.items {
		*item.err = b.err
	}
	for _, w := range b.writes {
		w.batchDone()
	}
}

// records returns new records for each request: a request reads them to their ends.
func (b *partitionBatch) records() []kafka.Record {
	now := time.Now()
	records := make([]kafka.Record, len(b.items))
	for i, item := range b.items {
		m := item.message
		records[i] = kafka.Record{Time: now, Key: kafka.NewBytes(m.Key), Value: kafka.NewBytes(m.Value), Headers: m.Headers}
	}
	return records
}

// sizeOf bounds the bytes of a message in a request.
func sizeOf(m *Message) int {
	n := len(m.Key) + len(m.Value) + overheadBytes
	for _, h := range m.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}
