package broker

import (
	"sync"
	"time"
)

// sizeLimitTTL is how long a topic's limit is remembered: an operator may raise it.
const sizeLimitTTL = 10 * time.Second

// sizeLimits remembers the sizes that topics refused as too large: a refused request costs the broker as much as a good
// one. Its zero value has no limits. It is safe for concurrent use.
type sizeLimits struct {
	mu     sync.Mutex
	topics map[string]sizeLimit
}

// sizeLimit is the smallest message and the smallest batch that a topic refused, in bytes as sizeOf counts them; 0: none.
type sizeLimit struct {
	messageBytes, batchBytes int
	until                    time.Time
}

// recordRefusal remembers that a topic refused a batch as too large.
func (s *sizeLimits) recordRefusal(b *partitionBatch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.topics == nil {
		s.topics = map[string]sizeLimit{}
	}
	l := s.topics[b.topic]
	if time.Now().After(l.until) {
		l = sizeLimit{until: time.Now().Add(sizeLimitTTL)}
	}
	switch single := len(b.items) == 1; {
	case single && (l.messageBytes == 0 || b.bytes < l.messageBytes):
		l.messageBytes = b.bytes
	case !single && (l.batchBytes == 0 || b.bytes < l.batchBytes):
		l.batchBytes = b.bytes
	}
	s.topics[b.topic] = l
}

// of returns the remembered limit of a topic.
func (s *sizeLimits) of(topic string) sizeLimit {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, known := s.topics[topic]
	if known && time.Now().After(l.until) {
		delete(s.topics, topic)
		return sizeLimit{}
	}
	return l
}

// refuses reports whether the topic would refuse a message of this size: it has refused one that was no larger.
func (l sizeLimit) refuses(bytes int) bool { return l.messageBytes > 0 && bytes >= l.messageBytes }

// maxBatch bounds the bytes of a batch: half of the smallest batch that the topic refused.
func (l sizeLimit) maxBatch() int {
	if l.batchBytes > 0 {
		return l.batchBytes / 2
	}
	return maxBatchBytes
}
