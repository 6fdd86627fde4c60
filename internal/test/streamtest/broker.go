package streamtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/duetime/duetime/internal/broker"
	"github.com/duetime/duetime/internal/stream"
)

const maxRecords = 100_000 // uncommitted records of a partition; beyond it Produce fails

var (
	errClosed  = errors.New("the broker is closed")
	errNoTopic = errors.New("there is no such topic")
)

// Broker is the brokers in memory. It is safe for concurrent use.
type Broker struct {
	cfg broker.Config

	mu     sync.Mutex
	closed bool
	wanted []broker.Topic // those of cfg, and further ones
	topics map[string]*topic
}

// New makes a stream on a broker of its own. It panics on a configuration that can't work: that is a programmer's error.
func New(cfg stream.Config) *stream.Kafka {
	s, err := stream.New(cfg, func(cfg broker.Config) (stream.Broker, error) { return Open(cfg), nil })
	if err != nil {
		panic(fmt.Sprintf("streamtest.New: %v", err))
	}
	return s
}

// Open makes a broker without topics.
func Open(cfg broker.Config) *Broker {
	return &Broker{cfg: cfg, wanted: cfg.Topics, topics: map[string]*topic{}}
}

// SetFurther has further topics created like the configured ones, in place of those of an earlier call.
func (b *Broker) SetFurther(topics []broker.Topic) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wanted = slices.Concat(b.cfg.Topics, topics)
}

// Ensure creates the topics that are configured, and the further ones.
func (b *Broker) Ensure(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.wanted {
		b.ensure(t)
	}
	return b.open()
}

// ensure creates a missing topic; mu is held.
func (b *Broker) ensure(t broker.Topic) *topic {
	if b.topics[t.Name] == nil {
		b.topics[t.Name] = &topic{
			rebalanceTimeout: b.cfg.SessionTimeout, partitionOf: b.cfg.Partition,
			logs: make([]partition, t.Partitions), appended: make(chan struct{}),
		}
	}
	return b.topics[t.Name]
}

// open returns errClosed after Close; mu is held.
func (b *Broker) open() error {
	if b.closed {
		return errClosed
	}
	return nil
}

// Ping answers nil until Close.
func (b *Broker) Ping(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open()
}

// Close makes later calls of Produce fail. Consume must have returned.
func (b *Broker) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}

// Partitions returns how many partitions a topic has.
func (b *Broker) Partitions(_ context.Context, name string) (int, error) {
	t, err := b.find(name)
	if err != nil {
		return 0, err
	}
	return len(t.logs), nil
}

// find returns a topic, which is created if it is configured.
func (b *Broker) find(name string) (*topic, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.open(); err != nil {
		return nil, err
	}
	for _, t := range b.wanted {
		if t.Name == name {
			return b.ensure(t), nil
		}
	}
	if t := b.topics[name]; t != nil {
		return t, nil
	}
	return nil, broker.Permanent(fmt.Errorf("%s: %w", name, errNoTopic))
}

// Produce appends messages to one topic, as a broker.Client does.
func (b *Broker) Produce(ctx context.Context, name string, messages []broker.Message) []error {
	t, err := b.find(name)
	if err = errors.Join(ctx.Err(), err); err != nil {
		return slices.Repeat([]error{fmt.Errorf("publish: %w", err)}, len(messages))
	}
	errs := make([]error, len(messages))
	for i, m := range messages {
		errs[i] = t.append(m)
	}
	return errs
}

// Consume reads a topic as a member of its group, as a broker.Client does.
func (b *Broker) Consume(ctx context.Context, to broker.Topic, group string, fn func(context.Context, stream.Records) error) error {
	b.mu.Lock()
	if err := b.open(); err != nil {
		b.mu.Unlock()
		return fmt.Errorf("join %s: %w", group, err)
	}
	t := b.ensure(to)
	b.mu.Unlock()

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
		if err == nil || s.isLost() || errors.Is(err, broker.ErrSessionOver) {
			delays.Reset()
			continue
		}
		if ctx.Err() == nil {
			b.cfg.Logger.Warn("session ended with an error", "topic", to.Name, "err", err)
		}
		select {
		case <-time.After(delays.NextBackOff()):
		case <-s.lost:
		case <-ctx.Done():
		}
	}
}

// Uncommitted returns how many partitions the topic has, and the uncommitted offsets of each.
func (b *Broker) Uncommitted(_ context.Context, name, _ string) (partitions int, spans map[int]broker.Span, err error) {
	t, err := b.find(name)
	if err != nil {
		return 0, nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	spans = map[int]broker.Span{}
	for p, log := range t.logs {
		spans[p] = broker.Span{From: log.committed, To: log.committed + int64(len(log.records))}
	}
	return len(t.logs), spans, nil
}

// RecordsAt returns the records at the given offsets of partitions; one that was committed meanwhile is left out.
func (b *Broker) RecordsAt(_ context.Context, name string, offsets map[int]int64) map[int]broker.Record {
	found := map[int]broker.Record{}
	t, err := b.find(name)
	if err != nil {
		return found
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for p, offset := range offsets {
		if i := offset - t.logs[p].committed; i >= 0 && i < int64(len(t.logs[p].records)) {
			found[p] = t.logs[p].records[i]
		}
	}
	return found
}
