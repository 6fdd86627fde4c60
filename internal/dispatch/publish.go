package dispatch

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/duetime/duetime/internal/protocol"
)

const (
	maxRefusals   = 3                      // of an entry while Kafka takes others, until the entry is passed over
	firstRetry    = 200 * time.Millisecond // from an entry's first refusal to its retry
	laterRetry    = time.Second            // from each later refusal to the retry
	maxRemembered = 10_000                 // queues and destinations in trouble: rows of other programs can name any queue
)

// refusal is the state of an entry that Kafka refused while it took others.
type refusal struct {
	score protocol.Score // a moved task has another score: its refusals count anew
	count int
	retry time.Time // on the database's clock
}

// maxRefused is how many refused entries a shard retries; further ones are passed over, and left to the daemon.
func (s *shard) maxRefused() int { return max(s.d.cfg.Limit/2, 1) }

// isDue reports whether an entry may be sent now. No entry waits longer than laterRetry, even if the clock was set back.
func (s *shard) isDue(e protocol.Entry, now time.Time) bool {
	r, refused := s.refusals[e.Member]
	if !refused || r.score != e.Score {
		return true
	}
	wait := r.retry.Sub(now)
	return wait <= 0 || wait > laterRetry
}

// refuse decides what becomes of refused entries. While Kafka takes others, each entry gets a retry time of its own, so
// that no other entry waits for it; after its third refusal, or if too many entries wait, it is passed over. While Kafka
// takes nothing, no refusal is counted, and the returned error makes the shard back off.
func (s *shard) refuse(ctx context.Context, c *call, entries []protocol.Entry, cause error) (well bool, err error) {
	kafka := s.health.judge(ctx, c.before, s.sendRebuild)
	if kafka == kafkaAway {
		s.forgetRefusals()
		return false, fmt.Errorf("%d of the claimed hints refused: %w", len(entries), cause)
	}
	s.refusing[c.to] = true
	s.recordTrouble(ctx, c.to.queue, len(entries), cause)
	now := s.d.cfg.Now()
	var over []protocol.Entry
	for _, e := range entries {
		r, kept := s.refusals[e.Member]
		if r.score != e.Score {
			r = refusal{score: e.Score}
		}
		if kafka == kafkaWell {
			r.count++
		}
		switch full := !kept && len(s.refusals) >= s.maxRefused(); {
		case r.count >= maxRefusals, full && kafka == kafkaWell:
			over = append(over, e)
		case !full:
			r.retry = now.Add(laterRetry)
			if r.count <= 1 {
				r.retry = now.Add(firstRetry)
			}
			s.refusals[e.Member] = r
		}
	}
	s.passOver(ctx, over, cause)
	return kafka == kafkaWell, nil
}

// forgetRefusals forgets all refusals once Kafka takes nothing: they say nothing about a queue, and must not accumulate
// while Kafka is away.
func (s *shard) forgetRefusals() {
	clear(s.refusals)
	clear(s.trouble)
	clear(s.refusing)
	s.waiting = 0
}

// recordTrouble records that Kafka refuses hints of a queue, or doesn't answer them. It logs the first time.
func (s *shard) recordTrouble(ctx context.Context, queue string, n int, cause error) {
	if _, known := s.trouble[queue]; !known {
		s.d.cfg.Logger.WarnContext(ctx, "queue in trouble", "shard", s.number, "queue", queue, "n", n, "err", cause)
	}
	if len(s.trouble) >= maxRemembered || len(s.refusing) >= maxRemembered {
		clear(s.trouble)
		clear(s.refusing)
	}
	s.trouble[queue] = time.Now()
}

// forgetAbsent forgets the refusals of entries that are no longer in the due set.
func (s *shard) forgetAbsent(claimed []protocol.Entry) {
	if len(s.refusals) == 0 {
		return
	}
	stands := make(map[string]bool, len(claimed))
	for _, e := range claimed {
		stands[e.Member] = true
	}
	maps.DeleteFunc(s.refusals, func(member string, _ refusal) bool {
		_, sent := s.inFlight[member]
		return !sent && !stands[member]
	})
}

// untilRetry returns the time until the first retry of a refused entry, at most limit. An entry whose retry time has gone by
// may have to wait for the answer to a call, which wakes the shard: until then further claims would only repeat the entry.
func (s *shard) untilRetry(now time.Time, limit time.Duration) time.Duration {
	overdueWait := time.Millisecond
	if len(s.calls) > 0 {
		overdueWait = waitingSleep
	}
	for member, r := range s.refusals {
		if _, sent := s.inFlight[member]; sent {
			continue
		}
		wait := r.retry.Sub(now)
		if wait <= 0 {
			wait = overdueWait
		}
		limit = min(limit, max(wait, time.Millisecond))
	}
	return limit
}

// passOver removes entries from the due set unpublished. Their rows are still pending, so the daemon puts them again.
func (s *shard) passOver(ctx context.Context, entries []protocol.Entry, cause error) {
	if len(entries) == 0 {
		return
	}
	s.d.metrics.passedOver.Add(float64(len(entries)))
	e := entries[0]
	s.d.cfg.Logger.WarnContext(ctx, "hint passed over",
		"shard", s.number, "task_id", e.ID, "kind", e.Kind, "queue", e.Queue, "n", len(entries), "err", cause)
	for _, e := range entries {
		delete(s.refusals, e.Member)
		s.acked = append(s.acked, e)
	}
}
