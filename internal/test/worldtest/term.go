package worldtest

import "sync"

// Term is a leader's term that records its calls.
type Term struct {
	mu       sync.Mutex
	progress int
	fenced   int64
}

// Progress counts a call.
func (t *Term) Progress() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.progress++
}

// Fenced remembers the stored epoch.
func (t *Term) Fenced(stored int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fenced = stored
}

// Seen returns how often the leader has made progress, and the epoch by which it was fenced, or 0.
func (t *Term) Seen() (progress int, fenced int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.progress, t.fenced
}
