package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

var (
	errNoQueue    = errors.New("there is no such queue in this process's configuration")
	errLocalFull  = errors.New("partition is full: nobody commits")
	errNotOfGroup = errors.New("partition is not assigned to this session")
)

// localTopic is one topic with the one group that reads it. Records that the group has committed are dropped.
type localTopic struct {
	patience time.Duration // how long a rebalance waits for a member whose fn has not returned

	mu      sync.Mutex
	logs    []localLog
	grown   chan struct{} // closed and made anew at each append
	round   int           // spreads records without a key
	members []*localMember
	gen     int64
	forced  *time.Timer // ends the wait of a rebalance; nil while none goes on
}

// localLog is one partition. The committed offset is also the log's start.
type localLog struct {
	committed int64
	records   []record // from committed on
}

// localMember is one Consume. It waits, or has a session.
type localMember struct {
	waiting bool
	given   chan *localSession // holds the session of the newest generation
	session *localSession
}

func newLocalTopic(partitions int, patience time.Duration) *localTopic {
	return &localTopic{patience: patience, logs: make([]localLog, partitions), grown: make(chan struct{})}
}

func (t *localTopic) append(key, value []byte, traceparent string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.round % len(t.logs)
	if key != nil {
		p = partitionOf(key, len(t.logs))
	} else {
		t.round++
	}
	log := &t.logs[p]
	if len(log.records) >= maxLocalLog {
		return errLocalFull
	}
	next := log.committed + int64(len(log.records))
	log.records = append(log.records, record{partition: p, offset: next, value: value, traceparent: traceparent})
	close(t.grown)
	t.grown = make(chan struct{})
	return nil
}

// backlog tells what is uncommitted.
func (t *localTopic) backlog() *backlog {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := &backlog{partitions: len(t.logs), settled: map[int]bool{}, first: map[int]time.Time{}}
	for p, log := range t.logs {
		if len(log.records) == 0 {
			b.settled[p] = true
			continue
		}
		if _, at, err := decodeHint(log.records[0].value); err == nil && !at.IsZero() {
			b.first[p] = at
		}
	}
	return b
}

// join adds a member, which ends the others' sessions.
func (t *localTopic) join() *localMember {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := &localMember{given: make(chan *localSession, 1)}
	t.wait(m)
	return m
}

// await returns the member's next session once fn of the last one has returned.
func (t *localTopic) await(ctx context.Context, m *localMember) (*localSession, error) {
	t.mu.Lock()
	if !m.waiting && len(m.given) == 0 {
		t.wait(m)
	}
	t.mu.Unlock()
	select {
	case s := <-m.given:
		return s, ctx.Err()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// wait makes the member one that waits for the next generation; mu is held.
func (t *localTopic) wait(m *localMember) {
	if !slices.Contains(t.members, m) {
		t.members = append(t.members, m)
	}
	m.waiting, m.session = true, nil
	t.rebalance()
}

// leave takes the member out; the others share its partitions at once.
func (t *localTopic) leave(m *localMember) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.session != nil {
		m.session.lose()
	}
	t.members = slices.DeleteFunc(t.members, func(x *localMember) bool { return x == m })
	t.rebalance()
}

// rebalance ends all sessions and, when every member waits, begins the next generation; mu is held.
func (t *localTopic) rebalance() {
	busy := false
	for _, m := range t.members {
		if m.session != nil {
			m.session.lose()
		}
		busy = busy || !m.waiting
	}
	switch {
	case !busy:
		t.begin()
	case t.forced == nil:
		t.forced = time.AfterFunc(t.patience, t.force)
	}
}

// force begins the next generation without those whose fn has not returned.
func (t *localTopic) force() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.forced == nil {
		return
	}
	t.members = slices.DeleteFunc(t.members, func(m *localMember) bool { return !m.waiting })
	t.begin()
}

// begin shares the partitions among the members; mu is held.
func (t *localTopic) begin() {
	if t.forced != nil {
		t.forced.Stop()
		t.forced = nil
	}
	t.gen++
	for i, m := range t.members {
		s := &localSession{topic: t, gen: t.gen, lost: make(chan struct{}), next: map[int]int64{}}
		for p := i; p < len(t.logs); p += len(t.members) {
			s.partitions = append(s.partitions, p)
			s.next[p] = t.logs[p].committed
		}
		m.waiting, m.session = false, s
		m.given <- s
	}
}

// localSession is one generation of a group in memory.
type localSession struct {
	topic      *localTopic
	gen        int64
	partitions []int
	metrics    *metrics
	lost       chan struct{}
	over       atomic.Bool // fn has returned

	next  map[int]int64 // guarded by topic.mu: the next offset to deliver
	first int           // guarded by topic.mu: the partition served first; it goes round
}

var _ rawSession = (*localSession)(nil)

// lose tells the session that its generation ends; topic.mu is held.
func (s *localSession) lose() {
	if !s.isLost() {
		close(s.lost)
	}
}

func (s *localSession) isLost() bool {
	select {
	case <-s.lost:
		return true
	default:
		return false
	}
}

func (s *localSession) run(ctx context.Context, fn func(context.Context, rawSession) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	var watch sync.WaitGroup
	defer watch.Wait()
	defer close(ended)
	watch.Go(func() {
		select {
		case <-s.lost:
			cancel()
		case <-ended:
		}
	})
	defer s.over.Store(true)
	return fn(ctx, s)
}

// Partitions returns the assigned partitions.
func (s *localSession) Partitions() []int { return s.partitions }

// Lost is closed when the generation ends.
func (s *localSession) Lost() <-chan struct{} { return s.lost }

// Fetch returns the deliveries that are there, at least one.
func (s *localSession) Fetch(ctx context.Context) ([]task.Delivery, error) {
	recs, err := s.take(ctx, fetchLimit)
	if err != nil {
		return nil, err
	}
	return deliveries(recs, s.metrics), nil
}

func (s *localSession) take(ctx context.Context, limit int) ([]record, error) {
	for {
		if s.isLost() || s.over.Load() {
			return nil, ErrSessionOver
		}
		recs, grown := s.grab(limit)
		if len(recs) > 0 {
			return recs, nil
		}
		select {
		case <-grown:
		case <-s.lost:
			return nil, ErrSessionOver
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// grab takes an equal share of each partition first and fills up with what is left.
func (s *localSession) grab(limit int) ([]record, <-chan struct{}) {
	t := s.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []record
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
	return out, t.grown
}

// Commit stores the next offsets unless a newer generation stands.
func (s *localSession) Commit(ctx context.Context, next map[int]int64) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	t := s.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.over.Load() || s.gen != t.gen {
		return fmt.Errorf("commit: %w", ErrSessionOver)
	}
	for p := range next {
		if !slices.Contains(s.partitions, p) {
			return fmt.Errorf("commit partition %d: %w", p, errNotOfGroup)
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
