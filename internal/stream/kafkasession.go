package stream

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/pkg/task"
)

// kafkaSession is one generation of a group on Kafka.
type kafkaSession struct {
	k          *Kafka
	topic      string
	gen        *kafka.Generation
	partitions []int
	lost       <-chan struct{}
	inbox      *inbox
	beyond     atomic.Bool // the generation has ended, and no other is there yet
	over       atomic.Bool // fn has returned
}

var _ rawSession = (*kafkaSession)(nil)

func newKafkaSession(k *Kafka, topic string, gen *kafka.Generation, lost <-chan struct{}) *kafkaSession {
	s := &kafkaSession{k: k, topic: topic, gen: gen, lost: lost}
	for _, a := range gen.Assignments[topic] {
		s.partitions = append(s.partitions, a.ID)
	}
	s.inbox = newInbox(len(s.partitions))
	return s
}

// run calls fn while one reader per partition fills the inbox, and returns when all of them have.
func (s *kafkaSession) run(ctx context.Context, from []kafka.PartitionAssignment,
	fn func(context.Context, rawSession) error,
) error {
	f := &fetcher{k: s.k, topic: s.topic, client: s.k.client}
	defer f.close()
	var readers sync.WaitGroup
	defer readers.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i, a := range from {
		r := &reader{
			k: s.k, fetcher: f, partition: a.ID, offset: a.Offset,
			inbox: s.inbox, queue: i, log: s.k.cfg.Logger.With("queue", s.topic, "partition", a.ID),
		}
		readers.Go(func() { r.run(ctx) })
	}
	defer s.over.Store(true)
	return fn(ctx, s)
}

// Partitions returns the assigned partitions.
func (s *kafkaSession) Partitions() []int { return s.partitions }

// Lost is closed when the next generation is there.
func (s *kafkaSession) Lost() <-chan struct{} { return s.lost }

// Fetch returns the deliveries that are there, at least one.
func (s *kafkaSession) Fetch(ctx context.Context) ([]task.Delivery, error) {
	recs, err := s.take(ctx, fetchLimit)
	if err != nil {
		return nil, err
	}
	return deliveries(recs, s.k.metrics), nil
}

func (s *kafkaSession) take(ctx context.Context, limit int) ([]record, error) {
	if s.over.Load() {
		return nil, ErrSessionOver
	}
	return s.inbox.take(ctx, s.lost, limit)
}

// Commit sends the next offsets under this generation's number: the broker refuses it once a newer one stands.
func (s *kafkaSession) Commit(ctx context.Context, next map[int]int64) error {
	if len(next) == 0 {
		return nil
	}
	if s.over.Load() || s.beyond.Load() {
		return fmt.Errorf("commit: %w", ErrSessionOver)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if err := s.gen.CommitOffsets(map[string]map[int]int64{s.topic: next}); err != nil {
		return fmt.Errorf("commit offsets of %s: %w", s.topic, sessionOver(err))
	}
	return nil
}
