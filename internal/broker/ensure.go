package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/internal/loop"
)

const (
	ensureInterval    = time.Second // between requests for callers that met an unknown topic
	ensureTimeout     = 5 * time.Second
	topicPollInterval = 50 * time.Millisecond
	segmentTime       = time.Hour // Kafka drops whole segments: without this limit a quiet topic would keep everything
)

// ensured is the outcome of the last request for the topics.
type ensured struct {
	at  time.Time
	err error
}

// SetFurther has further topics treated like those of Config.Topics, in place of those of an earlier call.
func (c *Client) SetFurther(topics []Topic) { c.further.Store(&topics) }

// wanted are those of Config.Topics, and the further ones.
func (c *Client) wanted() []Topic {
	if further := c.further.Load(); further != nil {
		return union(c.cfg.Topics, *further)
	}
	return c.cfg.Topics
}

// union adds topics that are missing: the broker refuses a request that names a topic twice.
func union(topics, further []Topic) []Topic {
	topics = slices.Clone(topics)
	for _, t := range further {
		if !named(topics, t.Name) {
			topics = append(topics, t)
		}
	}
	return topics
}

func named(topics []Topic, name string) bool {
	return slices.ContainsFunc(topics, func(t Topic) bool { return t.Name == name })
}

// Ensure creates the missing ones of Config.Topics and of the further topics. Several processes may do so at once. When it returned nil, the broker
// knows every topic. An error joins the errors of single topics; the others were created. It takes at most five seconds.
//
// Timestamps are the broker's (LogAppendTime), so that no producer's clock can hold up retention or have its messages
// refused.
func (c *Client) Ensure(ctx context.Context) error {
	if err := c.ensuring.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("ensure topics: %w", err)
	}
	defer c.ensuring.Release(1)
	err := c.ensure(ctx, c.wanted())
	return cmp.Or(Refusal(err), err)
}

// ensureThrottled is Ensure with further topics. Without further topics it repeats the last outcome for a second.
func (c *Client) ensureThrottled(ctx context.Context, further ...Topic) error {
	if err := c.ensuring.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("ensure topics: %w", err)
	}
	defer c.ensuring.Release(1)
	if len(further) == 0 && time.Since(c.ensured.at) < ensureInterval {
		return c.ensured.err
	}
	return c.ensure(ctx, union(c.wanted(), further))
}

// isConfigured reports whether Ensure creates the topic.
func (c *Client) isConfigured(topic string) bool { return named(c.wanted(), topic) }

func (c *Client) ensure(ctx context.Context, topics []Topic) error {
	ctx, cancel := context.WithTimeout(ctx, ensureTimeout)
	defer cancel()
	err := c.create(ctx, topics)
	c.ensured = ensured{at: time.Now(), err: err}
	return err
}

// create asks for all topics, even existing ones: their metadata may be stale, since the broker may have been wiped.
func (c *Client) create(ctx context.Context, topics []Topic) error {
	req := &kafka.CreateTopicsRequest{}
	for _, t := range topics {
		req.Topics = append(req.Topics, t.config())
	}
	res, err := c.kafka.CreateTopics(ctx, req)
	if errors.Is(err, kafka.BrokerNotAvailable) {
		err = cmp.Or(c.Ping(ctx), err) // the library doesn't report why it knows no broker
	}
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	var errs []error
	for _, t := range topics {
		switch err := res.Errors[t.Name]; {
		case err == nil, errors.Is(err, kafka.TopicAlreadyExists):
			errs = append(errs, c.awaitTopic(ctx, t.Name))
		case errors.Is(err, kafka.TopicAuthorizationFailed), errors.Is(err, kafka.ClusterAuthorizationFailed):
			if _, missing := c.Partitions(ctx, t.Name); missing != nil {
				errs = append(errs, Permanent(fmt.Errorf("create topic %s: %w", t.Name, err)))
			}
		default:
			errs = append(errs, fmt.Errorf("create topic %s: %w", t.Name, err))
		}
	}
	return errors.Join(errs...)
}

// awaitTopic waits until the topic is in this client's view of the cluster: another process may have created it.
func (c *Client) awaitTopic(ctx context.Context, topic string) error {
	for {
		_, err := c.Partitions(ctx, topic)
		if err == nil {
			return nil
		}
		if loop.Sleep(ctx, topicPollInterval); ctx.Err() != nil {
			return err
		}
	}
}

func (t Topic) config() kafka.TopicConfig {
	c := kafka.TopicConfig{
		Topic: t.Name, NumPartitions: t.Partitions, ReplicationFactor: t.Replication,
		ConfigEntries: []kafka.ConfigEntry{
			{ConfigName: "cleanup.policy", ConfigValue: "delete"},
			{ConfigName: "retention.ms", ConfigValue: strconv.FormatInt(t.Retention.Milliseconds(), 10)},
			{ConfigName: "segment.ms", ConfigValue: strconv.FormatInt(segmentTime.Milliseconds(), 10)},
			{ConfigName: "message.timestamp.type", ConfigValue: "LogAppendTime"},
		},
	}
	if t.Replication >= 3 {
		// With acks=all, a message is then on two brokers before it counts.
		c.ConfigEntries = append(c.ConfigEntries, kafka.ConfigEntry{ConfigName: "min.insync.replicas", ConfigValue: "2"})
	}
	return c
}
