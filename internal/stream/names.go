package stream

import (
	"slices"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/broker"
)

const (
	hintRetention     = 24 * time.Hour // sweeps put the entries of older hints again
	letterRetention   = 7 * 24 * time.Hour
	maxSidePartitions = 4 // of the compensation and dead topics
)

// subscription is a topic and its one group.
type subscription struct {
	topic string
	group string
}

// names makes the names of a namespace's topics and groups.
type names struct{ namespace string }

// queue joins the names by dots, which both names may contain. Only a queue's topic has a part "q": no namespace has such
// a part, except the whole namespace "q". The group of a queue with dots is named like its topic: otherwise namespace
// "shop" with queue "mail.high" and namespace "shop.mail" with queue "high" would share a group.
func (n names) queue(queue string) subscription {
	s := subscription{topic: n.queueTopic(queue), group: n.namespace + "." + queue}
	if strings.Contains(queue, ".") {
		s.group = s.topic
	}
	return s
}

func (n names) queueTopic(queue string) string { return n.namespace + ".q." + queue }

// QueueNames returns the topic of a queue in a namespace, and the consumer group that reads it, for tools that are
// configured beside our processes.
func QueueNames(namespace, queue string) (topic, group string) {
	s := names{namespace}.queue(queue)
	return s.topic, s.group
}

func (n names) compensations() subscription {
	return subscription{topic: n.namespace + ".compensate", group: n.namespace + ".compensate"}
}

func (n names) deadLetterTopic() string { return n.namespace + ".dead" }

// topics are the topics that Ensure creates.
func (c Config) topics() []broker.Topic {
	out := []broker.Topic{c.compensationTopic(), c.topic(names{c.Namespace}.deadLetterTopic(), c.sidePartitions(), letterRetention)}
	for _, q := range slices.Compact(slices.Sorted(slices.Values(c.Queues))) {
		out = append(out, c.queueTopic(q))
	}
	return out
}

func (c Config) queueTopic(queue string) broker.Topic {
	return c.topic(names{c.Namespace}.queueTopic(queue), c.Partitions, hintRetention)
}

func (c Config) compensationTopic() broker.Topic {
	return c.topic(names{c.Namespace}.compensations().topic, c.sidePartitions(), hintRetention)
}

func (c Config) topic(name string, partitions int, retention time.Duration) broker.Topic {
	return broker.Topic{Name: name, Partitions: partitions, Replication: c.Replication, Retention: retention}
}

func (c Config) sidePartitions() int { return min(c.Partitions, maxSidePartitions) }
