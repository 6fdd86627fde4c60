package stream

import (
	"errors"
	"sync"
	"time"

	"github.com/duetime/duetime/internal/broker"
)

var (
	errNoQueue   = errors.New("there is no such queue in this process's configuration")
	errLocalFull = errors.New("partition is full: nobody commits")
)

// localTopic is one topic and its one group. It drops the records that the group has committed.
type localTopic struct {
	rebalanceTimeout time.Duration // for members whose fn has not returned

	mu             sync.Mutex
	logs           []localLog
	appended       chan struct{} // closed and replaced at each append
	keyless        int           // records without a key so far: they go to the partitions in turn
	members        []*localMember
	gen            int64
	rebalanceTimer *time.Timer // ends the wait for busy members; nil outside of a rebalance
}

// localLog is one partition. The committed offset is also the log's start.
type localLog struct {
	committed int64
	records   []broker.Record // the uncommitted ones
}

func (t *localTopic) append(key, value []byte, traceparent string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.keyless % len(t.logs)
	if key != nil {
		p = partitionOf(key, len(t.logs))
	} else {
		t.keyless++
	}
	log := &t.logs[p]
	if len(log.records) >= maxLocalRecords {
		return errLocalFull
	}
	next := log.committed + int64(len(log.records))
	log.records = append(log.records, broker.Record{Partition: p, Offset: next, Value: value, Header: traceparent})
	close(t.appended)
	t.appended = make(chan struct{})
	return nil
}

// backlog returns what is uncommitted.
func (t *localTopic) backlog() *backlog {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := newBacklog(len(t.logs))
	for p, log := range t.logs {
		if len(log.records) == 0 {
			b.committed[p] = true
			continue
		}
		b.addFirst(log.records[0])
	}
	return b
}
