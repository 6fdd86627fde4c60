package stream

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/broker"
	"github.com/duetime/duetime/internal/metric"
	"github.com/duetime/duetime/internal/protocol"
)

const publishTimeout = 5 * time.Second

// Kafka is the stream on Apache Kafka. NewKafka contacts no broker; every method waits a bounded time, or until its ctx
// ends. It is safe for concurrent use.
type Kafka struct {
	cfg     Config
	names   names
	metrics *metrics
	broker  Broker
}

// Broker carries the records. It is a broker.Client, or a test's broker in memory, and is described there.
type Broker interface {
	Ensure(ctx context.Context) error
	SetFurther(topics []broker.Topic)
	Ping(ctx context.Context) error
	Close() error
	Partitions(ctx context.Context, topic string) (int, error)
	Produce(ctx context.Context, topic string, messages []broker.Message) []error
	Consume(ctx context.Context, topic broker.Topic, group string, fn func(context.Context, Records) error) error
	Uncommitted(ctx context.Context, topic, group string) (partitions int, spans map[int]broker.Span, err error)
	RecordsAt(ctx context.Context, topic string, offsets map[int]int64) map[int]broker.Record
}

// Records is a session whose records are still encoded, as broker.Session is.
type Records interface {
	Count() int // of the topic's partitions
	Partitions() []int
	Fetch(ctx context.Context, limit int) ([]broker.Record, error)
	Commit(ctx context.Context, next map[int]int64) error
	Lost() <-chan struct{}
}

// client is a broker.Client as Broker.
type client struct{ *broker.Client }

// Consume reads a topic as a member of a group.
func (c client) Consume(ctx context.Context, topic broker.Topic, group string, fn func(context.Context, Records) error) error {
	return c.Client.Consume(ctx, topic, group, func(ctx context.Context, s *broker.Session) error { return fn(ctx, s) })
}

// NewKafka makes a Kafka for the configured brokers; it returns an error for a configuration that can't work.
func NewKafka(cfg Config) (*Kafka, error) {
	return New(cfg, func(cfg broker.Config) (Broker, error) {
		c, err := broker.New(cfg)
		return client{c}, err
	})
}

// New makes a Kafka on the broker that open returns.
func New(cfg Config, open func(broker.Config) (Broker, error)) (*Kafka, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	b, err := open(broker.Config{
		Addrs: cfg.Brokers, TLS: cfg.TLS, Mechanism: cfg.Mechanism, Username: cfg.Username, Password: cfg.Password,
		SessionTimeout: cfg.SessionTimeout, Heartbeat: cfg.Heartbeat,
		Topics: cfg.topics(), Partition: partitionOf,
		MaxValueBytes: maxCompensationBytes + 1, // one more than can be decoded: a value that was cut is refused
		KeptHeader:    traceHeader, MaxHeaderBytes: maxTraceHeaderBytes,
		Logger: cfg.Logger, Metrics: cfg.Metrics,
	})
	if err != nil {
		return nil, err
	}
	return &Kafka{cfg: cfg, names: names{cfg.Namespace}, metrics: newMetrics(cfg.Metrics), broker: b}, nil
}

// Close waits at most half a second for messages in flight, and closes the connections. Consume and Compensations must
// have returned.
func (k *Kafka) Close() error { return k.broker.Close() }

// Ping asks a broker for an answer, for at most three seconds.
func (k *Kafka) Ping(ctx context.Context) error { return k.broker.Ping(ctx) }

// Ensure creates the missing topics: one per configured queue, the compensation topic, the dead topic. Several processes
// may do so at once. When it returned nil, the broker knows every topic. An error joins the errors of single topics; the
// others were created. It takes at most five seconds.
//
// Queue topics have the configured partitions, the other two at most four.
func (k *Kafka) Ensure(ctx context.Context) error { return k.broker.Ensure(ctx) }

// SetFurther has the topics of further queues created where they are missing, like those of the configured ones, in place of those of an
// earlier call.
func (k *Kafka) SetFurther(queues []string) {
	topics := make([]broker.Topic, len(queues))
	for i, queue := range queues {
		topics[i] = k.cfg.queueTopic(queue)
	}
	k.broker.SetFurther(topics)
}

// Partition returns the partition of a queue's topic to which an owner's hints go, by cached metadata; 0 if the topic is
// unknown.
func (k *Kafka) Partition(ctx context.Context, queue, owner string) int {
	n, err := k.broker.Partitions(ctx, k.names.queueTopic(queue))
	if err != nil {
		return 0
	}
	return partitionOf([]byte(owner), n)
}

// Publish sends a hint of each entry to its queue's topic, keyed by protocol.RouteKey, and waits for the acknowledgement of
// all in-sync replicas. It returns nil if all hints were acknowledged, otherwise one error or nil per entry. A permanent
// error concerns only that entry (it can't be encoded, or its queue is not configured and has no topic). After any other
// error the outcome is unknown: publish the entry again. It takes at most five seconds. Topics don't wait for each other.
func (k *Kafka) Publish(ctx context.Context, entries []protocol.Entry, epoch int64) []error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	errs := make([]error, len(entries))
	var topics sync.WaitGroup
	for queue, hints := range k.hintsByQueue(entries, epoch, traceHeaders(ctx), errs) {
		topics.Go(func() {
			for i, err := range k.broker.Produce(ctx, k.names.queueTopic(queue), hints.messages) {
				errs[hints.entries[i]] = err
			}
		})
	}
	topics.Wait()
	if slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		return errs
	}
	return nil
}

// queueHints are the hints for one queue, and their entries.
type queueHints struct {
	messages []broker.Message
	entries  []int // indexes
}

// hintsByQueue encodes the hints. An entry that can't be encoded has its error set.
func (k *Kafka) hintsByQueue(entries []protocol.Entry, epoch int64, headers []broker.Header, errs []error) map[string]*queueHints {
	now := k.cfg.Now()
	byQueue := map[string]*queueHints{}
	for i, e := range entries {
		value, err := encodeHint(e, epoch, now)
		if err != nil {
			errs[i] = err
			continue
		}
		q := byQueue[e.Queue]
		if q == nil {
			q = &queueHints{}
			byQueue[e.Queue] = q
		}
		q.messages = append(q.messages, broker.Message{Key: []byte(protocol.RouteKey(e.Route(), e.Score)), Value: value, Headers: headers})
		q.entries = append(q.entries, i)
	}
	return byQueue
}

// Compensate sends the compensation to its topic, in several messages if it is large, and waits for the
// acknowledgement of all replicas, for at most five seconds. After an error the outcome is unknown: some may have been
// sent.
func (k *Kafka) Compensate(ctx context.Context, c protocol.Compensation) error {
	values, err := encodeCompensation(c)
	if err != nil {
		return err
	}
	messages := make([]broker.Message, len(values))
	for i, v := range values {
		messages[i].Value = v
	}
	return k.produce(ctx, k.names.compensations().topic, messages)
}

// Bury sends dead letters of at most 16 KiB each, cut to fit, to the dead topic and waits for the acknowledgement of all
// replicas, for at most five seconds. After an error the outcome is unknown: some may have been sent.
func (k *Kafka) Bury(ctx context.Context, letters []protocol.DeadLetter) error {
	messages := make([]broker.Message, len(letters))
	for i, d := range letters {
		v, err := encodeDeadLetter(d)
		if err != nil {
			return err
		}
		messages[i] = broker.Message{Value: v}
		if d.Owner != "" { // keeps an owner's dead letters in one partition
			messages[i].Key = []byte(cut(d.Owner, maxNameBytes))
		}
	}
	return k.produce(ctx, k.names.deadLetterTopic(), messages)
}

// produce sends messages to one topic and returns the first error.
func (k *Kafka) produce(ctx context.Context, topic string, messages []broker.Message) error {
	if len(messages) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	for _, err := range k.broker.Produce(ctx, topic, messages) {
		if err != nil {
			return err
		}
	}
	return nil
}

// Consume reads a queue's topic as a member of the queue's group, until ctx ends; then it leaves the group and returns
// nil. It calls fn with each session, one at a time, and joins again when fn has returned. While the broker is away it
// keeps trying. It returns a permanent error when the broker refuses the configuration.
//
// fn's ctx ends with the session or with Consume's ctx; fn must then return soon. If fn goes on after a lost session, its
// partitions wait for three seconds; then this member leaves the group until fn has returned. An error of fn is logged,
// and the session ends after a growing delay.
func (k *Kafka) Consume(ctx context.Context, queue string, fn func(ctx context.Context, s protocol.Session) error) error {
	if err := checkName("queue", queue); err != nil {
		return broker.Permanent(err)
	}
	return k.broker.Consume(ctx, k.cfg.queueTopic(queue), k.names.queue(queue).group, func(ctx context.Context, s Records) error {
		return fn(ctx, hintSession{s, k.metrics})
	})
}

// Compensations calls fn with the available compensations, and commits them once fn has returned nil. Until then it gives
// fn the same ones after a growing delay. A compensation that can't be decoded is dropped and counted. Compensations
// returns nil when ctx ends, and a permanent error when the broker refuses the configuration.
func (k *Kafka) Compensations(ctx context.Context, fn func(context.Context, []protocol.Compensation) error) error {
	c := compensator{fn: fn, metrics: k.metrics, logger: k.cfg.Logger}
	return k.broker.Consume(ctx, k.cfg.compensationTopic(), k.names.compensations().group, c.run)
}

// ErrSessionOver says that the generation of a session has ended: nothing more can be fetched or committed in it.
var ErrSessionOver = broker.ErrSessionOver

// Refusal returns a permanent error that names what to change, if the broker refused for good; nil for all other errors.
func Refusal(err error) error { return broker.Refusal(err) }

type metrics struct {
	undecodable *prometheus.CounterVec // by what: queue, compensation
}

func newMetrics(r prometheus.Registerer) *metrics {
	return &metrics{
		undecodable: metric.Shared(r, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "duetime_stream_undecodable_total",
			Help: "Messages that could not be decoded, by what they were read as.",
		}, []string{"what"})),
	}
}
