package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/duetime/duetime/internal/broker"
	"github.com/duetime/duetime/pkg/task"
)

const (
	maxLocalRecords = 100_000 // uncommitted records of a partition; beyond it Publish fails
	maxLocalLetters = 1000    // dead letters that are kept, the newest ones
)

// Local is the stream in memory, the twin of Kafka for tests. Its partitions, groups, generations, and commits behave like
// Kafka's. It is safe for concurrent use.
type Local struct {
	cfg     Config
	names   names
	metrics *metrics

	mu      sync.Mutex
	closed  bool
	topics  map[string]*localTopic
	letters []task.DeadLetter
}

// NewLocal makes a Local. It panics on a configuration that can't work: that is a programmer's error.
func NewLocal(cfg Config) *Local {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		panic(fmt.Sprintf("stream.NewLocal: %v", err))
	}
	return &Local{cfg: cfg, names: names{cfg.Namespace}, metrics: newMetrics(cfg.Metrics), topics: map[string]*localTopic{}}
}

// Ensure creates the configured topics.
func (l *Local) Ensure(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range l.cfg.Queues {
		l.ensure(l.names.queueTopic(q), l.cfg.Partitions)
	}
	l.ensure(l.names.compensations().topic, l.cfg.sidePartitions())
	return l.open()
}

// ensure creates a missing topic; mu is held.
func (l *Local) ensure(topic string, partitions int) *localTopic {
	if l.topics[topic] == nil {
		l.topics[topic] = &localTopic{
			rebalanceTimeout: l.cfg.SessionTimeout, logs: make([]localLog, partitions), appended: make(chan struct{}),
		}
	}
	return l.topics[topic]
}

// open returns ErrClosed after Close; mu is held.
func (l *Local) open() error {
	if l.closed {
		return ErrClosed
	}
	return nil
}

// Ping answers nil until Close.
func (l *Local) Ping(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open()
}

// Close makes later calls of Publish fail. Consume and Compensations must have returned.
func (l *Local) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return nil
}

// Partition returns the partition of a queue's topic to which an owner's hints go.
func (l *Local) Partition(_ context.Context, _, owner string) int {
	return partitionOf([]byte(owner), l.cfg.Partitions)
}

// Publish appends a hint of each entry to its queue's topic. It returns nil if all were appended, otherwise one error or
// nil per entry. A permanent error concerns only that entry: it can't be encoded, or its queue has no topic.
func (l *Local) Publish(ctx context.Context, entries []task.Entry, epoch int64) []error {
	if err := ctx.Err(); err != nil {
		return slices.Repeat([]error{fmt.Errorf("publish: %w", err)}, len(entries))
	}
	errs, traceparent := make([]error, len(entries)), traceparentOf(ctx)
	for i, e := range entries {
		value, err := encodeHint(e, epoch, l.cfg.Now())
		if err == nil {
			err = l.append(l.names.queueTopic(e.Queue), []byte(task.RouteKey(e.Owner, e.Score)), value, traceparent)
		}
		errs[i] = err
	}
	return orNil(errs)
}

// append adds one record to the key's partition of a topic. An unknown topic is created if it is configured.
func (l *Local) append(topic string, key, value []byte, traceparent string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.open(); err != nil {
		return err
	}
	t := l.topics[topic]
	if t == nil {
		partitions, configured := l.configured(topic)
		if !configured {
			return broker.Permanent(fmt.Errorf("publish to %s: %w", topic, errNoQueue))
		}
		t = l.ensure(topic, partitions)
	}
	return t.append(key, value, traceparent)
}

// configured returns the partitions of a topic that Ensure creates; mu is held.
func (l *Local) configured(topic string) (partitions int, configured bool) {
	if topic == l.names.compensations().topic {
		return l.cfg.sidePartitions(), true
	}
	return l.cfg.Partitions, slices.ContainsFunc(l.cfg.Queues, func(q string) bool { return l.names.queueTopic(q) == topic })
}

// Compensate appends the compensation to its topic, in several messages if it is large.
func (l *Local) Compensate(ctx context.Context, c task.Compensation) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("compensate: %w", err)
	}
	values, err := encodeCompensation(c)
	if err != nil {
		return err
	}
	for _, v := range values {
		if err := l.append(l.names.compensations().topic, nil, v, ""); err != nil {
			return err
		}
	}
	return nil
}

// Bury keeps dead letters, cut to at most 16 KiB each. Only the newest thousand are kept; see Buried.
func (l *Local) Bury(ctx context.Context, letters []task.DeadLetter) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("bury: %w", err)
	}
	for _, d := range letters {
		if _, err := encodeDeadLetter(d); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.open(); err != nil {
		return err
	}
	l.letters = append(l.letters, letters...)
	l.letters = slices.Clone(l.letters[max(0, len(l.letters)-maxLocalLetters):])
	return nil
}

// Buried returns the kept dead letters, oldest first.
func (l *Local) Buried() []task.DeadLetter {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.letters)
}

// Consume reads a queue's topic as a member of the queue's group, as Kafka's Consume does.
func (l *Local) Consume(ctx context.Context, queue string, fn func(ctx context.Context, s Session) error) error {
	if err := checkName("queue", queue); err != nil {
		return broker.Permanent(err)
	}
	return l.consume(ctx, l.names.queue(queue), l.cfg.Partitions, func(ctx context.Context, s recordSession) error {
		return fn(ctx, hintSession{s, l.metrics})
	})
}

// Compensations calls fn with the available compensations, as Kafka's Compensations does.
func (l *Local) Compensations(ctx context.Context, fn func(context.Context, []task.Compensation) error) error {
	c := compensator{fn: fn, metrics: l.metrics, logger: l.cfg.Logger}
	return l.consume(ctx, l.names.compensations(), l.cfg.sidePartitions(), c.run)
}

func (l *Local) consume(ctx context.Context, sub subscription, partitions int,
	fn func(context.Context, recordSession) error,
) error {
	l.mu.Lock()
	if err := l.open(); err != nil {
		l.mu.Unlock()
		return fmt.Errorf("join %s: %w", sub.group, err)
	}
	t := l.ensure(sub.topic, partitions)
	l.mu.Unlock()

	m := t.join()
	defer t.leave(m)
	delays := backoff.ExponentialBackOff{
		InitialInterval: broker.MinFailureDelay, MaxInterval: broker.MaxFailureDelay, Multiplier: 2,
	}
	for {
		s, err := t.awaitSession(ctx, m)
		if err != nil {
			return nil
		}
		err = s.run(ctx, fn)
		if err == nil || s.isLost() || errors.Is(err, ErrSessionOver) {
			delays.Reset()
			continue
		}
		if ctx.Err() == nil {
			l.cfg.Logger.Warn("session ended with an error", "queue", sub.topic, "err", err)
		}
		select {
		case <-time.After(delays.NextBackOff()):
		case <-s.lost:
		case <-ctx.Done():
		}
	}
}

// Backlog returns what the queue's group has not committed yet.
func (l *Local) Backlog(_ context.Context, queue string) (Backlog, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[l.names.queueTopic(queue)]
	if t == nil {
		return nil, fmt.Errorf("backlog of %s: %w", queue, errNoQueue)
	}
	return t.backlog(), nil
}
