package broker

import (
	"log/slog"
	"sync"
	"time"
)

const warnInterval = 10 * time.Second // between two lines of one kind

// quiet logs one line in warnInterval for all queues and partitions of a client: while Kafka is away each of them would write its
// own every few seconds. The zero value is ready.
type quiet struct {
	mu     sync.Mutex
	n      int // warnings since the last line
	logged time.Time
}

// warn logs the warning, or counts it into the next line.
func (q *quiet) warn(log *slog.Logger, now time.Time, text string, args ...any) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.n++
	if now.Sub(q.logged) < warnInterval {
		return
	}
	log.Warn(text, append(args, "n", q.n)...) //nolint:sloglint // Each caller passes a constant.
	q.n, q.logged = 0, now
}
