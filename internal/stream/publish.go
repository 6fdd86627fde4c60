package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/pkg/task"
)

const (
	publishBound = 5 * time.Second
	maxInFlight  = 20_000 // messages handed to the producer and not answered yet
)

// outgoing are the messages of one topic and whose they are.
type outgoing struct {
	messages []kafka.Message
	of       []int // index of each message's entry in the caller's slice
}

// Publish sends a hint of each entry to its queue's topic, keyed by task.RouteKey, and waits for the acknowledgement of all
// in-sync replicas. It answers nil when all have it, else one error, or nil, per entry. A permanent error concerns that
// entry alone (it can't be encoded, or its queue is not configured and has no topic); any other error means unknown:
// publish it again. It takes at most five seconds. Topics don't wait for each other.
func (k *Kafka) Publish(ctx context.Context, entries []task.Entry, epoch int64) []error {
	ctx, cancel := context.WithTimeout(ctx, publishBound)
	defer cancel()
	errs := make([]error, len(entries))
	byTopic := k.messages(entries, epoch, traceHeaders(ctx), errs)
	var wg sync.WaitGroup
	for topic, out := range byTopic {
		wg.Go(func() {
			for i, err := range k.write(ctx, topic, out.messages) {
				errs[out.of[i]] = err
			}
		})
	}
	wg.Wait()
	if !slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		return nil
	}
	return errs
}

func (k *Kafka) messages(entries []task.Entry, epoch int64, headers []kafka.Header, errs []error) map[string]*outgoing {
	now := k.cfg.Now()
	byTopic := map[string]*outgoing{}
	for i, e := range entries {
		value, err := hintValue(e, epoch, now)
		if err != nil {
			errs[i] = err
			continue
		}
		topic := k.names.queue(e.Queue).topic
		if byTopic[topic] == nil {
			byTopic[topic] = &outgoing{}
		}
		o := byTopic[topic]
		o.messages = append(o.messages, kafka.Message{Topic: topic, Key: []byte(task.RouteKey(e.Owner, e.Score)), Value: value, Headers: headers})
		o.of = append(o.of, i)
	}
	return byTopic
}

// Partition tells to which partition of a queue's topic an owner's hints go, as of what is known without asking the broker;
// 0 where the topic is not known.
func (k *Kafka) Partition(ctx context.Context, queue, owner string) int {
	n, err := k.partitions(ctx, k.names.queue(queue).topic)
	if err != nil {
		return 0
	}
	return partitionOf([]byte(owner), n)
}

// hintValue encodes the hint of an entry, or says for good why it can't be.
func hintValue(e task.Entry, epoch int64, now time.Time) ([]byte, error) {
	if e.Err != nil {
		return nil, permanent(fmt.Errorf("publish undecodable member: %w", e.Err))
	}
	h := hintOf(e, epoch)
	if err := checkHint(h); err != nil {
		return nil, permanent(fmt.Errorf("publish %s: %w", e.ID, err))
	}
	if err := checkName("queue", e.Queue); err != nil {
		return nil, permanent(fmt.Errorf("publish %s: %w", e.ID, err))
	}
	return appendHint(make([]byte, 0, 192), h, now), nil
}

// write writes messages of one topic. Where the topic is unknown it ensures the topics and tries again; where it still
// is then and no configured queue has it, the error is permanent. It answers nil, or one error or nil per message.
func (k *Kafka) write(ctx context.Context, topic string, messages []kafka.Message) []error {
	errs := k.try(ctx, topic, messages)
	missed := unknownTopic(errs)
	if len(missed) == 0 {
		return errs
	}
	ours := k.isOurs(topic)
	if err := k.ensureSoon(ctx); err != nil && ours {
		for _, i := range missed {
			errs[i] = fmt.Errorf("publish to %s: %w", topic, err)
		}
		return errs
	}
	retry := make([]kafka.Message, len(missed))
	for i, at := range missed {
		retry[i] = messages[at]
	}
	second := k.try(ctx, topic, retry)
	for i, at := range missed {
		if second == nil {
			errs[at] = nil
			continue
		}
		errs[at] = second[i]
		if !ours && errors.Is(second[i], kafka.UnknownTopicOrPartition) {
			errs[at] = permanent(second[i])
		}
	}
	return errs
}

// unknownTopic lists the messages whose topic the broker doesn't have.
func unknownTopic(errs []error) []int {
	var out []int
	for i, err := range errs {
		if errors.Is(err, kafka.UnknownTopicOrPartition) {
			out = append(out, i)
		}
	}
	return out
}

// isOurs reports whether Ensure creates the topic.
func (k *Kafka) isOurs(topic string) bool {
	return slices.ContainsFunc(k.topics(), func(t kafka.TopicConfig) bool { return t.Topic == topic })
}

// try hands messages to the producer and waits for its answer. When ctx ends first the messages are still on their way
// (none is taken back): they count as in flight until the producer has answered, so that callers that give up and call
// again can't pile up messages without end.
func (k *Kafka) try(ctx context.Context, topic string, messages []kafka.Message) []error {
	if _, err := k.partitions(ctx, topic); err != nil {
		return same(len(messages), fmt.Errorf("publish to %s: %w", topic, err))
	}
	n := min(int64(len(messages)), maxInFlight)
	if err := k.inFlight.Acquire(ctx, n); err != nil {
		return same(len(messages), fmt.Errorf("publish to %s: too much in flight: %w", topic, err))
	}
	answer := make(chan []error, 1)
	go func() {
		defer k.inFlight.Release(n)
		answer <- k.producer.write(context.WithoutCancel(ctx), topic, messages)
	}()
	select {
	case errs := <-answer:
		return named(topic, errs)
	case <-ctx.Done():
		return same(len(messages), fmt.Errorf("publish to %s: %w: %w", topic, ErrOutcomeUnknown, ctx.Err()))
	}
}

// named says of what the errors are, nil if there is none.
func named(topic string, errs []error) []error {
	failed := false
	for i, err := range errs {
		if err == nil {
			continue
		}
		failed = true
		errs[i] = fmt.Errorf("publish to %s: %w", topic, err)
	}
	if !failed {
		return nil
	}
	return errs
}

func same(n int, err error) []error {
	out := make([]error, n)
	for i := range out {
		out[i] = err
	}
	return out
}
