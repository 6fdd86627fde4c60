package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
)

const (
	ensureEvery = time.Second // at most this often on behalf of callers that met an unknown topic
	ensureBound = 5 * time.Second
	pollEvery   = 50 * time.Millisecond
	keepHints   = 24 * time.Hour // the sweep puts again what is older
	keepDead    = 7 * 24 * time.Hour
	keepSegment = time.Hour // Kafka drops whole segments: without it a quiet topic would keep all it ever had
)

// ensured is the outcome of the last ensuring.
type ensured struct {
	at  time.Time
	err error
}

// Ensure creates the topics that are missing: one per configured queue, the compensation topic, the dead topic. Several
// processes may do so at once. When it returned nil every topic is known to the broker; an error joins what went wrong
// topic by topic, the others having been created. It takes at most five seconds.
//
// Queue topics have the configured partitions, the other two at most four. Timestamps are the broker's (LogAppendTime),
// so that no publisher's clock can hold up retention or have its messages refused; the moment that Backlog compares
// travels inside the hint.
func (k *Kafka) Ensure(ctx context.Context) error {
	if err := k.lockEnsuring(ctx); err != nil {
		return err
	}
	defer k.unlockEnsuring()
	err := k.ensure(ctx, k.topics())
	return cmp.Or(Refusal(err), err)
}

// ensureSoon is Ensure with one more topic, unless that was done within the last second: then its outcome is answered.
func (k *Kafka) ensureSoon(ctx context.Context, extra ...kafka.TopicConfig) error {
	if err := k.lockEnsuring(ctx); err != nil {
		return err
	}
	defer k.unlockEnsuring()
	if len(extra) == 0 && time.Since(k.ensured.at) < ensureEvery {
		return k.ensured.err
	}
	topics := k.topics()
	for _, t := range extra {
		// The broker refuses a topic that is named twice in one request.
		if !slices.ContainsFunc(topics, func(c kafka.TopicConfig) bool { return c.Topic == t.Topic }) {
			topics = append(topics, t)
		}
	}
	return k.ensure(ctx, topics)
}

func (k *Kafka) lockEnsuring(ctx context.Context) error {
	select {
	case k.ensuring <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("ensure topics: %w", ctx.Err())
	}
}

func (k *Kafka) unlockEnsuring() { <-k.ensuring }

func (k *Kafka) ensure(ctx context.Context, topics []kafka.TopicConfig) error {
	ctx, cancel := context.WithTimeout(ctx, ensureBound)
	defer cancel()
	err := k.create(ctx, topics)
	k.ensured = ensured{at: time.Now(), err: err}
	return err
}

// create asks for all topics, those that exist too: what is known of them may be stale, the broker may have been wiped.
func (k *Kafka) create(ctx context.Context, topics []kafka.TopicConfig) error {
	res, err := k.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: topics})
	if errors.Is(err, kafka.BrokerNotAvailable) {
		err = cmp.Or(k.Ping(ctx), err) // the client keeps to itself why it knows no broker
	}
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	var errs []error
	for _, t := range topics {
		switch err := res.Errors[t.Topic]; {
		case err == nil, errors.Is(err, kafka.TopicAlreadyExists):
			errs = append(errs, k.awaitTopic(ctx, t.Topic))
		case isForbidden(err):
			if _, seen := k.partitions(ctx, t.Topic); seen != nil {
				errs = append(errs, permanent(fmt.Errorf("create topic %s: %w", t.Topic, err)))
			}
		default:
			errs = append(errs, fmt.Errorf("create topic %s: %w", t.Topic, err))
		}
	}
	return errors.Join(errs...)
}

func isForbidden(err error) bool {
	return errors.Is(err, kafka.TopicAuthorizationFailed) || errors.Is(err, kafka.ClusterAuthorizationFailed)
}

// awaitTopic waits until the topic is in this client's view of the cluster: another process may have created it.
func (k *Kafka) awaitTopic(ctx context.Context, topic string) error {
	for {
		_, err := k.partitions(ctx, topic)
		if err == nil {
			return nil
		}
		if sleep(ctx, pollEvery) != nil {
			return err
		}
	}
}

func (k *Kafka) topics() []kafka.TopicConfig {
	side := min(k.cfg.Partitions, sidePartitions)
	out := []kafka.TopicConfig{
		k.topic(k.names.compensate().topic, side, keepHints),
		k.topic(k.names.dead(), side, keepDead),
	}
	for _, q := range slices.Compact(slices.Sorted(slices.Values(k.cfg.Queues))) {
		out = append(out, k.queueTopic(k.names.queue(q).topic))
	}
	return out
}

func (k *Kafka) queueTopic(name string) kafka.TopicConfig {
	return k.topic(name, k.cfg.Partitions, keepHints)
}

func (k *Kafka) topic(name string, partitions int, keep time.Duration) kafka.TopicConfig {
	c := kafka.TopicConfig{
		Topic: name, NumPartitions: partitions, ReplicationFactor: k.cfg.Replication,
		ConfigEntries: []kafka.ConfigEntry{
			{ConfigName: "cleanup.policy", ConfigValue: "delete"},
			{ConfigName: "retention.ms", ConfigValue: strconv.FormatInt(keep.Milliseconds(), 10)},
			{ConfigName: "segment.ms", ConfigValue: strconv.FormatInt(keepSegment.Milliseconds(), 10)},
			{ConfigName: "message.timestamp.type", ConfigValue: "LogAppendTime"},
		},
	}
	if k.cfg.Replication >= 3 {
		// With acks=all a message then stands on two brokers before it counts.
		c.ConfigEntries = append(c.ConfigEntries, kafka.ConfigEntry{ConfigName: "min.insync.replicas", ConfigValue: "2"})
	}
	return c
}

// sleep waits for d or until ctx ends, and then gives its error.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
