package streamtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/duetime/duetime/internal/broker"
	"github.com/duetime/duetime/internal/stream"
)

var errNotAssigned = errors.New("partition is not assigned to this session")

// session is one generation of a group in memory.
type session struct {
	topic      *topic
	gen        int64
	partitions []int
	lost       chan struct{}
	returned   atomic.Bool // fn has returned

	next  map[int]int64 // guarded by topic.mu: the next offset to deliver
	first int           // guarded by topic.mu: the partition that is served first, the next one at each Fetch
}

// lose ends the session; topic.mu is held.
func (s *session) lose() {
	if !s.isLost() {
		close(s.lost)
	}
}

func (s *session) isLost() bool {
	select {
	case <-s.lost:
		return true
	default:
		return false
	}
}

func (s *session) run(ctx context.Context, fn func(context.Context, stream.Records) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	watch.Go(func() {
		select {
		case <-s.lost:
			cancel()
		case <-ctx.Done():
		}
	})
	defer s.returned.Store(true)
	return fn(ctx, s)
}

// Partitions returns the assigned partitions.
func (s *session) Partitions() []int { return s.partitions }

// Count returns how many partitions the topic has.
func (s *session) Count() int { return len(s.topic.logs) }

// Lost is closed when the generation ends.
func (s *session) Lost() <-chan struct{} { return s.lost }

// Fetch returns the available records, at least one.
func (s *session) Fetch(ctx context.Context, limit int) ([]broker.Record, error) {
	for {
		if s.isLost() || s.returned.Load() {
			return nil, broker.ErrSessionOver
		}
		records, appended := s.takeNow(limit)
		if len(records) > 0 {
			return records, nil
		}
		select {
		case <-appended:
		case <-s.lost:
			return nil, broker.ErrSessionOver
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// takeNow takes an equal share of each partition first, then fills up from any partition.
func (s *session) takeNow(limit int) ([]broker.Record, <-chan struct{}) {
	t := s.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []broker.Record
	n := len(s.partitions)
	for _, share := range []int{max(1, limit/max(1, n)), limit} {
		for i := range n {
			p := s.partitions[(s.first+i)%n]
			log := t.logs[p]
			s.next[p] = max(s.next[p], log.committed)
			unread := log.records[min(s.next[p]-log.committed, int64(len(log.records))):]
			take := max(0, min(share, len(unread), limit-len(out)))
			out = append(out, unread[:take]...)
			s.next[p] += int64(take)
		}
	}
	s.first++
	return out, t.appended
}

// Commit stores the next offsets unless a newer generation stands.
func (s *session) Commit(ctx context.Context, next map[int]int64) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	t := s.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.returned.Load() || s.gen != t.gen {
		return fmt.Errorf("commit: %w", broker.ErrSessionOver)
	}
	for p := range next {
		if !slices.Contains(s.partitions, p) {
			return fmt.Errorf("commit partition %d: %w", p, errNotAssigned)
		}
	}
	for p, offset := range next {
		log := &t.logs[p]
		drop := min(max(offset-log.committed, 0), int64(len(log.records)))
		log.committed += drop
		log.records = slices.Clip(log.records[drop:])
		if len(log.records) == 0 {
			log.records = nil
		}
	}
	return nil
}
