package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

const (
	// maxRefusals is how often Kafka may refuse an entry, while it takes others, until the entry is passed over.
	maxRefusals = 3
	// firstRetry and laterRetry are how long a refused entry waits for its second and for each further try.
	firstRetry = 200 * time.Millisecond
	laterRetry = time.Second
	// maxTrouble bounds what is remembered of queues and lanes in trouble: rows of others can name any queue.
	maxTrouble = 10_000
)

// attempt is what is known of an entry that Kafka refused while it took others.
type attempt struct {
	score   task.Score // a task that was moved begins anew
	count   int        // refusals
	nextTry time.Time  // when to try next, on the database's clock
}

// room is how many refused entries a shard keeps to try again; the rest is left to the daemon.
func (s *shard) room() int { return max(s.d.cfg.Limit/2, 1) }

// isDue reports whether an entry may be sent now. A clock that was set back makes nobody wait.
func (s *shard) isDue(e task.Entry, now time.Time) bool {
	a, refused := s.held[e.Member]
	if !refused || a.score != e.Score {
		return true
	}
	wait := a.nextTry.Sub(now)
	return wait <= 0 || wait > laterRetry
}

// refuse decides what becomes of entries that Kafka refused. While it takes others each gets a time of its own to be tried
// again, so that nothing else waits for them; after the third refusal, or where too many wait, they are passed over. When
// Kafka takes nothing it is Kafka's fault: nobody is counted, and the error makes the shard back off.
func (s *shard) refuse(ctx context.Context, c *call, entries []task.Entry, cause error) (well bool, err error) {
	v := s.health.judge(ctx, c.before, s.probeKafka)
	if v == kafkaAway {
		s.startOver()
		return false, fmt.Errorf("%d of the claimed hints refused: %w", len(entries), cause)
	}
	s.refusing[c.lane] = true
	s.recordTrouble(ctx, c.lane.queue, len(entries), cause)
	now := s.d.cfg.Now()
	var over []task.Entry
	for _, e := range entries {
		a := s.held[e.Member]
		if a.score != e.Score {
			a = attempt{score: e.Score}
		}
		if v == kafkaWell {
			a.count++
		}
		_, kept := s.held[e.Member]
		switch full := !kept && len(s.held) >= s.room(); {
		case a.count >= maxRefusals, full && v == kafkaWell:
			over = append(over, e)
		case !full:
			a.nextTry = now.Add(laterRetry)
			if a.count <= 1 {
				a.nextTry = now.Add(firstRetry)
			}
			s.held[e.Member] = a
		}
	}
	s.passOver(ctx, over, cause)
	return v == kafkaWell, nil
}

// startOver drops what is known of refusals once Kafka takes nothing: it says nothing of a queue, and nothing may gather
// while Kafka is away.
func (s *shard) startOver() {
	clear(s.held)
	clear(s.trouble)
	clear(s.refusing)
	s.waiting = 0
}

// recordTrouble remembers that Kafka refuses hints of a queue, or doesn't answer them, and says so once.
func (s *shard) recordTrouble(ctx context.Context, queue string, n int, cause error) {
	if _, known := s.trouble[queue]; !known {
		s.d.cfg.Logger.WarnContext(ctx, "queue in trouble", "shard", s.number, "queue", queue, "n", n, "err", cause)
	}
	if len(s.trouble) >= maxTrouble || len(s.refusing) >= maxTrouble {
		clear(s.trouble)
		clear(s.refusing)
	}
	s.trouble[queue] = time.Now()
}

// forget drops what is known of entries that the due set doesn't give any more.
func (s *shard) forget(claimed []task.Entry) {
	if len(s.held) == 0 {
		return
	}
	stands := make(map[string]bool, len(claimed))
	for _, e := range claimed {
		stands[e.Member] = true
	}
	for member := range s.held {
		if _, flies := s.flying[member]; !flies && !stands[member] {
			delete(s.held, member)
		}
	}
}

// retry is how long until the first refused entry is to be tried again; most if none is before.
func (s *shard) retry(now time.Time, limit time.Duration) time.Duration {
	for member, a := range s.held {
		if _, flies := s.flying[member]; !flies {
			limit = min(limit, max(a.nextTry.Sub(now), time.Millisecond))
		}
	}
	return limit
}

// passOver takes entries out of the due set without having published them. Their rows are pending still, so the daemon
// puts them again.
func (s *shard) passOver(ctx context.Context, entries []task.Entry, cause error) {
	if len(entries) == 0 {
		return
	}
	s.d.metrics.passedOver.Add(float64(len(entries)))
	e := entries[0]
	s.d.cfg.Logger.WarnContext(ctx, "hint passed over",
		"shard", s.number, "task_id", e.ID, "kind", e.Kind, "queue", e.Queue, "n", len(entries), "err", cause)
	for _, e := range entries {
		delete(s.held, e.Member)
		s.acked = append(s.acked, e)
	}
}
