package dispatch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// takenFresh is how recently Kafka must have taken something to count as well without being asked.
	takenFresh = 100 * time.Millisecond
	// takenLately is how recently it must have, for a refusal to be no sign yet that it is away.
	takenLately = 2 * time.Second
)

// verdict says what a refusal means.
type verdict int

const (
	kafkaAway   verdict = iota // Kafka takes nothing at all: its fault
	kafkaUnsure                // it took something a moment ago
	kafkaWell                  // it takes other hints: the refusal concerns the refused ones alone
)

// health turns completed claims into the term's progress. A leader that lost Kafka must be replaced, and claims that
// find nothing due say nothing about Kafka: so while any shard owes hints that it claimed and could not publish yet,
// only what Kafka takes counts. It is safe for concurrent use.
type health struct {
	term  Term
	owing atomic.Int64 // shards with claimed and unpublished entries
	taken atomic.Int64 // times that Kafka took something, over all shards
	away  atomic.Bool  // the last verdict, until Kafka takes something

	mu    sync.Mutex // held by the one who asks Kafka
	asked time.Time  // when somebody last did
	last  atomic.Int64
}

// completed reports a completed claim; took says that Kafka took something since the one before.
func (h *health) completed(took bool) {
	if took || h.owing.Load() == 0 {
		h.term.Progress()
	}
}

// took notes that Kafka took something.
func (h *health) took() {
	h.taken.Add(1)
	h.last.Store(time.Now().UnixNano())
	h.away.Store(false)
}

// tookLately reports whether Kafka took something so recently.
func (h *health) tookLately(d time.Duration) bool {
	last := h.last.Load()
	return last > 0 && time.Since(time.Unix(0, last)) < d
}

// judge says what it means that Kafka refused hints that were handed to it when taken stood at before. Where nothing
// else shows whether Kafka is well, a message of tell's does; all shards share its outcome.
func (h *health) judge(ctx context.Context, before int64, probe func(context.Context) error) verdict {
	switch {
	case h.taken.Load() > before, h.tookLately(takenFresh), h.ask(ctx, takenFresh, probe):
		return kafkaWell
	case h.tookLately(takenLately):
		return kafkaUnsure
	}
	h.away.Store(true)
	return kafkaAway
}

// ask sends a message, unless somebody did within the last d or does now, and reports whether Kafka took one.
func (h *health) ask(ctx context.Context, d time.Duration, probe func(context.Context) error) bool {
	if !h.mu.TryLock() {
		return false
	}
	defer h.mu.Unlock()
	if time.Since(h.asked) < d {
		return h.tookLately(d)
	}
	err := probe(ctx)
	h.asked = time.Now()
	if err != nil {
		return false
	}
	h.took()
	return true
}

// owe notes that the shard has claimed entries to publish, or has none any more.
func (s *shard) owe(owes bool) {
	switch {
	case owes && !s.owes:
		s.health.owing.Add(1)
	case !owes && s.owes:
		s.health.owing.Add(-1)
	}
	s.owes = owes
}
