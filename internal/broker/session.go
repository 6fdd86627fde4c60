package broker

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/segmentio/kafka-go"
)

// Session is one generation of a group as its member sees it. One goroutine may fetch while others commit.
type Session struct {
	c          *Client
	topic      string
	gen        *kafka.Generation
	partitions []int
	count      int // of the topic's partitions; set before fn is called
	lost       <-chan struct{}
	inbox      *inbox

	generationEnded atomic.Bool // and the next one has not begun
	returned        atomic.Bool // fn has returned
}

func newSession(c *Client, topic string, gen *kafka.Generation, lost <-chan struct{}) *Session {
	s := &Session{c: c, topic: topic, gen: gen, lost: lost, count: 1}
	for _, a := range gen.Assignments[topic] {
		s.partitions = append(s.partitions, a.ID)
		s.count = max(s.count, a.ID+1)
	}
	s.inbox = newInbox(len(s.partitions))
	return s
}

// run calls fn while one reader for each partition fills the inbox. It returns when fn and all readers have returned.
func (s *Session) run(ctx context.Context, from []kafka.PartitionAssignment, fn func(context.Context, *Session) error) error {
	if n, err := s.c.Partitions(ctx, s.topic); err == nil {
		s.count = max(s.count, n)
	}
	var readers sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	f := newFetcher(ctx, s.c, s.topic)
	defer f.close()
	defer readers.Wait()
	defer cancel()
	for i, a := range from {
		r := &reader{
			c: s.c, fetcher: f, partition: a.ID, offset: a.Offset,
			inbox: s.inbox, queue: i, log: s.c.cfg.Logger.With("queue", s.topic, "partition", a.ID),
		}
		readers.Go(func() { r.run(ctx) })
	}
	defer s.returned.Store(true)
	return fn(ctx, s)
}

// Partitions returns the assigned partitions, perhaps none.
func (s *Session) Partitions() []int { return s.partitions }

// Count returns how many partitions the topic had when the session began. If the broker did not say, it is as many as the
// assigned ones show.
func (s *Session) Count() int { return s.count }

// Lost is closed when the group's next generation begins: a member that can't reach the coordinator goes on with its
// partitions until then.
func (s *Session) Lost() <-chan struct{} { return s.lost }

// Fetch returns the available records, at least one and at most limit, in offset order within a partition. It waits only
// while there is none. It returns ErrSessionOver once the session was lost, or ctx's error.
func (s *Session) Fetch(ctx context.Context, limit int) ([]Record, error) {
	if s.returned.Load() {
		return nil, ErrSessionOver
	}
	return s.inbox.take(ctx, s.lost, limit)
}

// Commit sends the next offset to read of each given partition, under this generation's number. It takes at most three
// seconds. Once a newer generation stands, the broker refuses the commit, and Commit returns ErrSessionOver.
func (s *Session) Commit(ctx context.Context, next map[int]int64) error {
	if len(next) == 0 {
		return nil
	}
	if s.returned.Load() || s.generationEnded.Load() {
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
