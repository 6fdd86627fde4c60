package loop

import (
	"log/slog"
	"sync"
	"time"
)

const warnInterval = 10 * time.Second // between two lines

// WarnThrottle logs one line in ten seconds for all that meet one trouble: while a server is away each queue, partition or call would
// write its own. The zero value is ready.
type WarnThrottle struct {
	mu     sync.Mutex
	n      int // warnings since the last line
	logged time.Time
}

// Warn logs the warning, or counts it into the next line.
func (s *WarnThrottle) Warn(log *slog.Logger, now time.Time, text string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	if now.Sub(s.logged) < warnInterval {
		return
	}
	log.Warn(text, append(args, "n", s.n)...) //nolint:sloglint // Each caller passes a constant.
	s.n, s.logged = 0, now
}
