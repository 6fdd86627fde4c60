package streamtest

import (
	"errors"
	"sync"
	"time"

	"github.com/duetime/duetime/internal/broker"
)

var errFull = errors.New("partition is full: nobody commits")

// topic is one topic and its one group. It drops the records that the group has committed.
type topic struct {
	rebalanceTimeout time.Duration // for members whose fn has not returned
	partitionOf      func(key []byte, n int) int

	mu             sync.Mutex
	logs           []partition
	appended       chan struct{} // closed and replaced at each append
	keyless        int           // records without a key so far: they go to the partitions in turn
	members        []*member
	gen            int64
	rebalanceTimer *time.Timer // ends the wait for busy members; nil outside of a rebalance
}

// partition is the log of one. The committed offset is also the log's start.
type partition struct {
	committed int64
	records   []broker.Record // the uncommitted ones
}

func (t *topic) append(m broker.Message) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.keyless % len(t.logs)
	if m.Key != nil {
		p = t.partitionOf(m.Key, len(t.logs))
	} else {
		t.keyless++
	}
	log := &t.logs[p]
	if len(log.records) >= maxRecords {
		return errFull
	}
	r := broker.Record{Partition: p, Offset: log.committed + int64(len(log.records)), Value: m.Value}
	for _, h := range m.Headers { // the sender adds only the one that is kept
		r.Header = string(h.Value)
	}
	log.records = append(log.records, r)
	close(t.appended)
	t.appended = make(chan struct{})
	return nil
}
