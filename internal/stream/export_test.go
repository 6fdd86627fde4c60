package stream

import "github.com/segmentio/kafka-go"

// Blindfold puts a balancer of the test's between the groups that are joined from now on and their own.
func (k *Kafka) Blindfold(b func(kafka.GroupBalancer) kafka.GroupBalancer) { k.blindfold = b }

// Append puts a message past the codec.
func (l *Local) Append(topic string, value []byte) error { return l.append(topic, nil, value) }

// MaxInFlight is how many messages may be unanswered.
const MaxInFlight = maxInFlight
