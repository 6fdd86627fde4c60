package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/scram"
	"golang.org/x/sync/semaphore"

	"github.com/duetime/duetime/internal/loop"
)

const (
	clientID       = "duetime"
	callTimeout    = 3 * time.Second
	closeTimeout   = 500 * time.Millisecond // a process that ends has drained before
	maxMetadataAge = 2 * time.Second        // of the cached leaders and topics
)

// Client speaks to the brokers of one Kafka. It is made without contacting them. It is safe for concurrent use.
type Client struct {
	cfg        Config
	metrics    metrics
	mechanism  sasl.Mechanism // nil: none
	transport  *kafka.Transport
	kafka      *kafka.Client
	producer   *producer
	unanswered *semaphore.Weighted // messages that Produce waits for, or stopped waiting for
	ensuring   *semaphore.Weighted // held during Ensure
	ensured    ensured             // guarded by ensuring
	further    atomic.Pointer[[]Topic]

	stalls, joins, topics loop.WarnThrottle // warnings of readers, and of members

	wrapBalancer func(kafka.GroupBalancer) kafka.GroupBalancer // for tests; else nil
}

// New makes a Client. It returns an error for a configuration that can't work.
func New(cfg Config) (*Client, error) {
	if len(cfg.Addrs) == 0 {
		return nil, errors.New("kafka.brokers: must name at least one broker")
	}
	c := &Client{
		cfg: cfg, metrics: newMetrics(cfg.Metrics),
		unanswered: semaphore.NewWeighted(maxUnanswered), ensuring: semaphore.NewWeighted(1),
	}
	if cfg.Username != "" {
		var err error
		if c.mechanism, err = scram.Mechanism(algorithm(cfg.Mechanism), cfg.Username, cfg.Password); err != nil {
			return nil, fmt.Errorf("kafka.sasl.username or kafka.sasl.password: %w", err)
		}
	}
	c.transport, c.kafka = c.connect()
	c.producer = newProducer(c.kafka, cfg.Partition)
	return c, nil
}

func algorithm(mechanism string) scram.Algorithm {
	if mechanism == scram.SHA256.Name() {
		return scram.SHA256
	}
	return scram.SHA512
}

// connect makes a connection pool, which has its own view of the cluster.
func (c *Client) connect() (*kafka.Transport, *kafka.Client) {
	t := &kafka.Transport{
		Dial:        (&net.Dialer{Timeout: callTimeout}).DialContext,
		DialTimeout: callTimeout,
		MetadataTTL: maxMetadataAge,
		ClientID:    clientID,
		TLS:         c.cfg.TLS,
		SASL:        c.mechanism,
	}
	return t, &kafka.Client{Addr: kafka.TCP(c.cfg.Addrs...), Transport: t}
}

// Close waits at most half a second for messages in flight, and closes the connections. Consume must have returned.
func (c *Client) Close() error {
	defer c.transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := c.unanswered.Acquire(ctx, maxUnanswered); err != nil {
		return fmt.Errorf("close kafka: %w", ErrOutcomeUnknown)
	}
	c.unanswered.Release(maxUnanswered)
	return nil
}

// Ping asks a broker for its API versions, for at most three seconds.
func (c *Client) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	res, err := c.kafka.ApiVersions(ctx, &kafka.ApiVersionsRequest{})
	if err != nil && ctx.Err() == nil {
		// The pooled connection may have died when the broker restarted.
		res, err = c.kafka.ApiVersions(ctx, &kafka.ApiVersionsRequest{})
	}
	if err == nil {
		err = res.Error
	}
	if err != nil {
		return fmt.Errorf("ping kafka: %w", err)
	}
	return nil
}

// Partitions returns how many partitions a topic has, as of at most maxMetadataAge ago; kafka.UnknownTopicOrPartition if
// it has none.
func (c *Client) Partitions(ctx context.Context, topic string) (int, error) {
	return countPartitions(ctx, c.kafka, topic)
}

func countPartitions(ctx context.Context, k *kafka.Client, topic string) (int, error) {
	t, err := describe(ctx, k, topic)
	return len(t.Partitions), err
}

// leaders returns the broker that leads each partition of a topic; a partition without a leader is left out.
func leaders(ctx context.Context, k *kafka.Client, topic string) (map[int]int, error) {
	t, err := describe(ctx, k, topic)
	if err != nil {
		return nil, err
	}
	leaderOf := map[int]int{}
	for _, p := range t.Partitions {
		if p.Error == nil && p.Leader.Host != "" {
			leaderOf[p.ID] = p.Leader.ID
		}
	}
	return leaderOf, nil
}

// describe returns the client's metadata of a topic; kafka.UnknownTopicOrPartition if the topic has no partitions.
func describe(ctx context.Context, k *kafka.Client, topic string) (kafka.Topic, error) {
	res, err := k.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return kafka.Topic{}, fmt.Errorf("metadata of %s: %w", topic, err)
	}
	for _, t := range res.Topics {
		switch {
		case t.Name != topic:
		case t.Error != nil:
			return kafka.Topic{}, fmt.Errorf("metadata of %s: %w", topic, t.Error)
		case len(t.Partitions) > 0:
			return t, nil
		}
	}
	return kafka.Topic{}, fmt.Errorf("metadata of %s: %w", topic, kafka.UnknownTopicOrPartition)
}
