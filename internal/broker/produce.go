package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/segmentio/kafka-go"
)

// maxUnanswered bounds the messages that the producer has taken and not answered.
const maxUnanswered = 20_000

// Produce sends messages to one topic and waits until all in-sync replicas have them. It answers nil when they have, else
// one error, or nil, per message. A permanent error concerns that message alone; after any other error the message may be
// in the log. Where the topic is unknown, Produce ensures the topics and sends a second time. A topic that is still unknown
// then, and is none that Ensure creates, is a permanent error.
func (c *Client) Produce(ctx context.Context, topic string, messages []Message) []error {
	errs := c.produceOnce(ctx, topic, messages)
	var missed []int // messages of an unknown topic
	for i, err := range errs {
		if errors.Is(err, kafka.UnknownTopicOrPartition) {
			missed = append(missed, i)
		}
	}
	if len(missed) == 0 {
		return errs
	}
	configured := c.isConfigured(topic)
	if err := c.ensureThrottled(ctx); err != nil && configured {
		for _, i := range missed {
			errs[i] = fmt.Errorf("publish to %s: %w", topic, err)
		}
		return errs
	}
	retried := make([]Message, len(missed))
	for n, i := range missed {
		retried[n] = messages[i]
	}
	second := c.produceOnce(ctx, topic, retried)
	for n, i := range missed {
		switch {
		case second == nil:
			errs[i] = nil
		case !configured && errors.Is(second[n], kafka.UnknownTopicOrPartition):
			errs[i] = Permanent(second[n])
		default:
			errs[i] = second[n]
		}
	}
	return errs
}

// produceOnce hands messages to the producer and waits for its answer. If ctx ends first, the messages stay in flight:
// none is withdrawn. They count as unanswered until the producer has answered. Otherwise callers that give up and retry
// would pile up messages without limit.
func (c *Client) produceOnce(ctx context.Context, topic string, messages []Message) []error {
	if _, err := c.Partitions(ctx, topic); err != nil {
		return slices.Repeat([]error{fmt.Errorf("publish to %s: %w", topic, err)}, len(messages))
	}
	n := min(int64(len(messages)), maxUnanswered)
	if err := c.unanswered.Acquire(ctx, n); err != nil {
		return slices.Repeat([]error{fmt.Errorf("publish to %s: too much in flight: %w", topic, err)}, len(messages))
	}
	answer := make(chan []error, 1)
	go func() {
		defer c.unanswered.Release(n)
		answer <- c.producer.write(topic, messages)
	}()
	select {
	case errs := <-answer:
		return withTopic(topic, errs)
	case <-ctx.Done():
		return slices.Repeat([]error{fmt.Errorf("publish to %s: %w: %w", topic, ErrOutcomeUnknown, ctx.Err())}, len(messages))
	}
}

// withTopic names the topic in each error; nil if no message has an error.
func withTopic(topic string, errs []error) (named []error) {
	for i, err := range errs {
		if err != nil {
			errs[i] = fmt.Errorf("publish to %s: %w", topic, err)
			named = errs
		}
	}
	return named
}
