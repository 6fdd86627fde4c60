package indexwriter

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// shardBreakers are the breakers of the shards whose last put failed while others' succeeded: a node of the cluster is away, or
// a slot is under migration. The tasks of a failing shard are put apart, by probes, so that no other shard's tasks wait for
// them; for breakerOpenTime after each failure they are not put at all.
type shardBreakers struct {
	logger *slog.Logger

	mu      sync.Mutex
	failing map[int]*shardBreaker
}

type shardBreaker struct {
	openUntil time.Time // no probe begins before
	probed    bool      // a probe is under way
}

// split parts tasks into those of sound shards and those of failing ones.
func (s *shardBreakers) split(tasks []task.Task) (sound, failing []task.Task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.failing) == 0 {
		return tasks, nil
	}
	for _, t := range tasks {
		if s.failing[t.Shard] == nil {
			sound = append(sound, t)
		} else {
			failing = append(failing, t)
		}
	}
	return sound, failing
}

// away reports whether the shard failed so lately that it isn't asked.
func (s *shardBreakers) away(shard int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.failing[shard]
	return b != nil && time.Now().Before(b.openUntil)
}

// beginProbe picks the tasks whose shards may be asked now. Until endProbe nobody else asks these shards.
func (s *shardBreakers) beginProbe(tasks []task.Task) (now, later []task.Task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := map[int]bool{}
	for _, t := range tasks {
		b := s.add(t.Shard)
		if !mine[t.Shard] && (b.probed || time.Now().Before(b.openUntil)) {
			later = append(later, t)
			continue
		}
		mine[t.Shard], b.probed = true, true
		now = append(now, t)
	}
	return now, later
}

// endProbe closes the breakers of the shards that answered, and opens those of the failed ones.
func (s *shardBreakers) endProbe(probed []task.Task, failed map[int]error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range probed {
		if failed[t.Shard] != nil {
			*s.add(t.Shard) = shardBreaker{openUntil: time.Now().Add(breakerOpenTime)}
		} else if s.failing[t.Shard] != nil {
			delete(s.failing, t.Shard)
			if len(s.failing) == 0 {
				s.logger.Info("all shards of the index are back")
			}
		}
	}
}

// addAll gives breakers to the shards of tasks whose put failed. They may be probed at once.
func (s *shardBreakers) addAll(tasks []task.Task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range tasks {
		s.add(t.Shard)
	}
}

// add returns the shard's breaker, a new one if it had none.
func (s *shardBreakers) add(shard int) *shardBreaker {
	if b := s.failing[shard]; b != nil {
		return b
	}
	if s.failing == nil {
		s.failing = map[int]*shardBreaker{}
	}
	if len(s.failing) == 0 {
		s.logger.Warn("a shard of the index is away, its tasks go to compensation", "shard", shard)
	}
	b := &shardBreaker{}
	s.failing[shard] = b
	return b
}

// probe puts tasks of failing shards behind the backs of all callers. Tasks that can't be put now are skipped; those whose put
// fails are compensated.
func (w *Writer) probe(ctx context.Context, tasks []task.Task) {
	if len(tasks) == 0 {
		return
	}
	if !w.probing.TryAcquire(1) {
		w.shards.addAll(tasks)
		w.skip(tasks)
		return
	}
	now, later := w.shards.beginProbe(tasks)
	w.skip(later)
	w.probes.Go(func() {
		defer w.probing.Release(1)
		if len(now) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, w.putTimeout)
		defer cancel()
		err := w.index.Put(ctx, now)
		shards, partial := task.FailedShards(err)
		if err != nil && !partial {
			shards = map[int]error{}
			for _, t := range now {
				shards[t.Shard] = err
			}
		}
		w.shards.endProbe(now, shards)
		failed := inShards(now, shards)
		count(w.metrics.puts, resultFailed, len(failed))
		count(w.metrics.puts, resultOK, len(now)-len(failed))
		w.compensations.add(failed)
	})
}
