package dispatch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	takenFresh  = 100 * time.Millisecond // if Kafka took a hint in this time, it is well, and is not probed
	takenLately = 2 * time.Second        // if Kafka took a hint in this time, a refusal does not mean yet that it is away
)

// kafkaState is what a refusal says about Kafka.
type kafkaState int

const (
	kafkaAway   kafkaState = iota // Kafka takes nothing at all
	kafkaUnsure                   // Kafka took something lately
	kafkaWell                     // Kafka takes other hints: the refusal concerns only the refused hints
)

// health turns completed claims into the term's progress. A leader that lost Kafka must be replaced, and a claim that
// finds nothing due says nothing about Kafka. So while any shard has claimed entries that are unpublished, only hints
// that Kafka takes are progress. A health is safe for concurrent use.
type health struct {
	term        Term
	unpublished atomic.Int64 // shards with claimed entries that are unpublished
	taken       atomic.Int64 // calls of all shards of which Kafka took something
	away        atomic.Bool  // the last refusal said so, and Kafka has taken nothing since

	last atomic.Pointer[time.Time] // when Kafka last took something, on the monotonic clock too; nil: never

	probing sync.Mutex // held during a probe
	probed  time.Time  // when the last probe ended
}

// completed reports a completed claim; took says that Kafka took something since the previous claim.
func (h *health) completed(took bool) {
	if took || h.unpublished.Load() == 0 {
		h.term.Progress()
	}
}

// recordTaken records that Kafka took something.
func (h *health) recordTaken() {
	h.taken.Add(1)
	now := time.Now()
	h.last.Store(&now)
	h.away.Store(false)
}

// tookLately reports whether Kafka took something in the last d.
func (h *health) tookLately(d time.Duration) bool {
	last := h.last.Load()
	return last != nil && time.Since(*last) < d
}

// judge says what it means that Kafka refused hints of a call that began when taken was before. If nothing else shows
// whether Kafka is well, judge sends a probe; all shards share the probe's outcome.
func (h *health) judge(ctx context.Context, before int64, probe func(context.Context) error) kafkaState {
	switch {
	case h.taken.Load() > before, h.tookLately(takenFresh), h.probe(ctx, takenFresh, probe):
		return kafkaWell
	case h.tookLately(takenLately):
		return kafkaUnsure
	}
	h.away.Store(true)
	return kafkaAway
}

// probe sends a probe and reports whether Kafka took it. If another shard's probe was sent in the last d, that one
// counts; while another shard probes, the answer is false.
func (h *health) probe(ctx context.Context, d time.Duration, send func(context.Context) error) bool {
	if !h.probing.TryLock() {
		return false
	}
	defer h.probing.Unlock()
	if time.Since(h.probed) < d {
		return h.tookLately(d)
	}
	err := send(ctx)
	h.probed = time.Now()
	if err != nil {
		return false
	}
	h.recordTaken()
	return true
}

// setUnpublished records whether the shard has claimed entries that are unpublished.
func (s *shard) setUnpublished(unpublished bool) {
	switch {
	case unpublished && !s.unpublished:
		s.health.unpublished.Add(1)
	case !unpublished && s.unpublished:
		s.health.unpublished.Add(-1)
	}
	s.unpublished = unpublished
}
