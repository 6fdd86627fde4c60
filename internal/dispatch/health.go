package dispatch

import "sync/atomic"

// health turns completed passes into the term's progress. A leader that lost Kafka must be replaced, and passes that
// find nothing due say nothing about Kafka: so while any shard owes hints that it claimed and could not publish yet,
// only a pass that published counts.
type health struct {
	term  Term
	owing atomic.Int64 // shards with claimed and unpublished entries
	taken atomic.Int64 // times that Kafka took something, over all shards
}

// completed reports a pass without an error; published says that something was due in it.
func (h *health) completed(published bool) {
	if published || h.owing.Load() == 0 {
		h.term.Progress()
	}
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
