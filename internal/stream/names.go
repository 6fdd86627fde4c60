package stream

import (
	"strings"

	"github.com/segmentio/kafka-go"
)

// subscription is one topic as read by its one group.
type subscription struct {
	topic string
	group string
}

// names spells the topics and groups of a namespace.
type names struct{ namespace string }

// queue joins the names by dots, which both may have themselves. A queue's topic is told from all others by the first part
// "q", which no namespace has (but for the whole namespace "q"). So is the group of a queue with dots: namespace "shop" with
// queue "mail.high" and namespace "shop.mail" with queue "high" would else share one.
func (n names) queue(queue string) subscription {
	s := subscription{topic: n.namespace + ".q." + queue, group: n.namespace + "." + queue}
	if strings.Contains(queue, ".") {
		s.group = s.topic
	}
	return s
}

// QueueNames spells the topic of a queue in a namespace, and the consumer group that reads it, for what is configured
// around our processes.
func QueueNames(namespace, queue string) (topic, group string) {
	s := names{namespace}.queue(queue)
	return s.topic, s.group
}

func (n names) compensate() subscription {
	return subscription{topic: n.namespace + ".compensate", group: n.namespace + ".compensate"}
}

func (n names) dead() string { return n.namespace + ".dead" }

// partitionOf places a key as the producer does, so that Backlog speaks of the partition that the producer chose.
func partitionOf(key []byte, partitions int) int {
	if partitions <= 1 {
		return 0
	}
	ids := make([]int, partitions)
	for i := range ids {
		ids[i] = i
	}
	return (&router{}).Balance(kafka.Message{Key: key}, ids...)
}
