package indexwriter

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// shardBreakers are the breakers of the shards whose last put failed while other shards' puts succeeded: a node of the
// cluster is away, or a slot is under migration. Probes put the tasks of a failing shard, so that no other shard's tasks
// wait for them. For breakerOpenTime after each failure the shard's tasks are not put at all.
type shardBreakers struct {
	logger *slog.Logger

	mu      sync.Mutex
	failing map[int]*shardBreaker
}

type shardBreaker struct {
	openUntil time.Time // no probe begins earlier
	probed    bool      // a probe is under way
}

// split separates the tasks of working shards from those of failing ones.
func (s *shardBreakers) split(tasks []task.Task) (working, failing []task.Task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.failing) == 0 {
		return tasks, nil
	}
	for _, t := range tasks {
		if s.failing[t.Shard] == nil {
			working = append(working, t)
		} else {
			failing = append(failing, t)
		}
	}
	return working, failing
}

// away reports whether the shard's breaker is open.
func (s *shardBreakers) away(shard int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.failing[shard]
	return b != nil && time.Now().Before(b.openUntil)
}

// beginProbe picks the tasks whose shards may be probed now. Until endProbe no other probe of these shards begins.
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

// endProbe closes the breakers of the shards that answered, and opens those of the failed shards.
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

// addAll adds breakers for the shards of tasks whose put failed. These shards may be probed at once.
func (s *shardBreakers) addAll(tasks []task.Task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range tasks {
		s.add(t.Shard)
	}
}

// add returns the shard's breaker, or adds one.
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

// probe puts tasks of failing shards in the background. Tasks that can't be put now are skipped; tasks whose put fails
// are compensated.
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
		shards, partial := protocol.FailedShards(err)
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
