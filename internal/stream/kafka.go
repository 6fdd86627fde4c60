package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/scram"
	"golang.org/x/sync/semaphore"
)

const (
	callTimeout = 3 * time.Second
	closeBound  = 500 * time.Millisecond // a process that was told to end has drained before
	metadataTTL = 2 * time.Second        // how stale the known leaders and topics may be
)

// Kafka is the stream on Apache Kafka. It is made without contacting a broker; every method waits a bounded time, or
// until its ctx ends. It is safe for concurrent use.
type Kafka struct {
	cfg       Config
	names     names
	metrics   *metrics
	sasl      sasl.Mechanism // nil: none
	transport *kafka.Transport
	client    *kafka.Client
	producer  *producer
	inFlight  *semaphore.Weighted
	blindfold func(kafka.GroupBalancer) kafka.GroupBalancer // tests hide partitions from it; else nil
	ensuring  chan struct{}                                 // held by the one who ensures
	ensured   ensured                                       // guarded by ensuring
}

// NewKafka makes a Kafka of the brokers configured; it returns an error for a configuration that can't work.
func NewKafka(cfg Config) (*Kafka, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if len(cfg.Brokers) == 0 {
		return nil, errors.New("kafka.brokers: must name at least one broker")
	}
	k := &Kafka{
		cfg: cfg, names: names{cfg.Namespace}, metrics: newMetrics(cfg.Metrics),
		inFlight: semaphore.NewWeighted(maxInFlight), ensuring: make(chan struct{}, 1),
	}
	if cfg.Username != "" {
		var err error
		if k.sasl, err = scram.Mechanism(scram.SHA512, cfg.Username, cfg.Password); err != nil {
			return nil, fmt.Errorf("kafka.sasl.username or kafka.sasl.password: %w", err)
		}
	}
	k.transport, k.client = k.newClient()
	k.producer = newProducer(k.client)
	return k, nil
}

// newClient makes a client with connections of its own.
func (k *Kafka) newClient() (*kafka.Transport, *kafka.Client) {
	t := &kafka.Transport{
		Dial:        (&net.Dialer{Timeout: callTimeout}).DialContext,
		DialTimeout: callTimeout,
		MetadataTTL: metadataTTL,
		ClientID:    "duetime",
		TLS:         k.cfg.TLS,
		SASL:        k.sasl,
	}
	return t, &kafka.Client{Addr: kafka.TCP(k.cfg.Brokers...), Transport: t}
}

// Close waits at most half a second for what is being written, and closes the connections. Consume and Compensations must
// have returned.
func (k *Kafka) Close() error {
	defer k.transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), closeBound)
	defer cancel()
	if err := k.inFlight.Acquire(ctx, maxInFlight); err != nil {
		return fmt.Errorf("close kafka: %w", ErrOutcomeUnknown)
	}
	k.inFlight.Release(maxInFlight)
	return nil
}

// Ping asks a broker for a sign of life, for at most three seconds.
func (k *Kafka) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	res, err := k.client.ApiVersions(ctx, &kafka.ApiVersionsRequest{})
	if err != nil && ctx.Err() == nil {
		// The pooled connection may be one that died with the broker's last life.
		res, err = k.client.ApiVersions(ctx, &kafka.ApiVersionsRequest{})
	}
	if err == nil {
		err = res.Error
	}
	if err != nil {
		return fmt.Errorf("ping kafka: %w", err)
	}
	return nil
}

// partitions tells how many partitions a topic has, as of at most metadataTTL ago.
func (k *Kafka) partitions(ctx context.Context, topic string) (int, error) {
	return countPartitions(ctx, k.client, topic)
}

func countPartitions(ctx context.Context, c *kafka.Client, topic string) (int, error) {
	t, err := describe(ctx, c, topic)
	return len(t.Partitions), err
}

// describe tells what the client knows of a topic; kafka.UnknownTopicOrPartition if that has no partitions.
func describe(ctx context.Context, c *kafka.Client, topic string) (kafka.Topic, error) {
	res, err := c.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
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
