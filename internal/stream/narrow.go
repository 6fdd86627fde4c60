package stream

import (
	"sync"
	"time"
)

// narrowFor is how long the limits of a topic are believed: somebody may widen them.
const narrowFor = 10 * time.Second

// narrow remembers which topics take less than others, so that what they would refuse is not sent to them again and again.
// Its zero value knows of none. It is safe for concurrent use.
type narrow struct {
	mu     sync.Mutex
	topics map[string]limits
}

// limits are what a topic refused as too large, in bytes as sizeOf counts them; 0 is nothing yet.
type limits struct {
	message, batch int
	until          time.Time
}

// refused takes in that a topic refused a batch as too large.
func (n *narrow) refused(b *batch) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.topics == nil {
		n.topics = map[string]limits{}
	}
	l := n.topics[b.topic]
	if time.Now().After(l.until) {
		l = limits{until: time.Now().Add(narrowFor)}
	}
	switch size := b.bytes; {
	case len(b.messages) == 1 && (l.message == 0 || size < l.message):
		l.message = size
	case len(b.messages) > 1 && (l.batch == 0 || size < l.batch):
		l.batch = size
	}
	n.topics[b.topic] = l
}

// of returns what is believed of a topic.
func (n *narrow) of(topic string) limits {
	n.mu.Lock()
	defer n.mu.Unlock()
	l, known := n.topics[topic]
	if known && time.Now().After(l.until) {
		delete(n.topics, topic)
		return limits{}
	}
	return l
}

// refuses reports whether the topic would refuse a message of this size: it refused one that was no larger.
func (l limits) refuses(size int) bool { return l.message > 0 && size >= l.message }

// maxBatch is how many bytes a batch may have: half of the smallest that the topic refused.
func (l limits) maxBatch() int {
	if l.batch > 0 {
		return l.batch / 2
	}
	return maxBatchBytes
}
