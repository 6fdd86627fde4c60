package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/pkg/task"
)

const (
	rebuildEvery = time.Second            // a shard asks for its rebuild at most so often
	askWithin    = 500 * time.Millisecond // how long asking may hold the shard up
	ackWithin    = 100 * time.Millisecond // the longest that published entries wait for the next claim where there is no tick
)

// shard is one shard's poll. It belongs to one goroutine.
type shard struct {
	d        *Dispatcher
	number   int
	epoch    int64
	health   *health
	idle     time.Duration // longest sleep
	crowd    crowd
	head     *head
	owes     bool
	acked    []task.Entry       // published or passed over, not yet removed from the due set
	refusals map[string]refusal // by member: what Kafka refused in the last pass
	asked    time.Time          // when a rebuild was last asked for
}

func (s *shard) run(ctx context.Context, wake <-chan struct{}, succeeded func()) error {
	return loop.Run(ctx, loop.Config{
		Name: fmt.Sprintf("dispatch shard %d", s.number), Interval: s.idle,
		MinBackoff: 20 * time.Millisecond, MaxBackoff: time.Second, Wake: wake, Succeeded: succeeded, Logger: s.d.cfg.Logger,
	}, s.pass)
}

// pass claims, publishes, and remembers what the next claim acknowledges.
func (s *shard) pass(ctx context.Context) (loop.Result, error) {
	now := s.d.cfg.Now()
	lead, limit := s.crowd.reach(now, s.d.cfg)
	claim, err := s.d.index.Claim(ctx, s.number, s.epoch, now, lead, limit, s.acked)
	if err != nil {
		return loop.Result{}, fmt.Errorf("claim shard %d: %w", s.number, err)
	}
	if claim.Fenced > 0 {
		s.d.metrics.fenced.Inc()
		s.d.cfg.Logger.WarnContext(ctx, "fenced", "shard", s.number, "epoch", s.epoch, "stored", claim.Fenced)
		s.health.term.Fenced(claim.Fenced)
		return loop.Result{}, loop.Stop(ErrFenced)
	}
	s.acked = s.acked[:0]
	s.owe(len(claim.Entries) > 0)
	s.head.claimed(claim)
	if err := s.publish(ctx, claim.Entries); err != nil {
		return loop.Result{}, fmt.Errorf("publish shard %d: %w", s.number, err)
	}
	s.owe(false)
	s.head.waits(claim.Next)
	s.crowd.note(claim, lead, limit, now.Add(s.d.cfg.Lead))
	s.health.completed(len(claim.Entries) > 0)
	if !claim.Marked {
		s.askRebuild(ctx, now)
	}
	next, full := s.sleep(claim, now), len(claim.Entries) == limit || s.crowd.follows()
	if len(s.acked) > 0 {
		next = min(next, max(s.d.cfg.tick(), min(s.d.cfg.Lead, ackWithin)))
	}
	return loop.Result{More: full || next <= 0, Next: next}, nil
}

// sleep is the time until the first entry that was not claimed is to be, at least a millisecond; but first until it can
// be seen whether a crowd comes with it.
func (s *shard) sleep(claim task.Claim, now time.Time) time.Duration {
	if claim.Next.IsZero() {
		return s.idle
	}
	wait := claim.Next.Sub(now)
	if s.d.cfg.Lead > 0 && wait > task.MaxLead {
		wait -= task.MaxLead
	} else {
		wait = claim.Next.Add(-s.d.cfg.Lead).Truncate(s.d.cfg.tick()).Sub(now)
	}
	return min(s.idle, max(wait, time.Millisecond))
}

// tick is the rhythm in which shards claim what comes one by one, all at the same moments of the clock: fewer claims take
// as much, and their hints go to Kafka together.
func (c Config) tick() time.Duration { return min(2*c.Lead, task.MaxLead-c.Lead) }

// reach is how far ahead of now a claim goes, so that at the next tick nothing is nearer than the lead.
func (c Config) reach(now time.Time) time.Duration {
	return now.Truncate(c.tick()).Add(c.tick() + c.Lead).Sub(now)
}

// askRebuild tells the daemon that the shard lost its memory. The daemon looks by itself too, so a request that
// doesn't come through costs a second.
func (s *shard) askRebuild(ctx context.Context, now time.Time) {
	if now.Sub(s.asked).Abs() < rebuildEvery {
		return
	}
	s.asked = now
	if err := s.tell(ctx); err != nil {
		s.d.cfg.Logger.WarnContext(ctx, "rebuild not asked for", "shard", s.number, "err", err)
	}
}

// tell sends a request that is harmless when nothing has to be rebuilt.
func (s *shard) tell(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	return s.d.stream.Compensate(ctx, task.Compensation{Rebuild: []int{s.number}})
}
