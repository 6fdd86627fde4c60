package dispatch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
)

const (
	rebuildInterval = time.Second            // between two requests for a shard's rebuild
	probeTimeout    = 500 * time.Millisecond // of a message on the compensation topic, which the shard waits for
	maxAckDelay     = 100 * time.Millisecond // until published entries are acknowledged, if there is no beat
	maxClaimFactor  = 3                      // times Config.Limit: a claim that reaches past the entries that wait takes no more
	waitingSleep    = 200 * time.Millisecond // after a full claim of entries that wait
	maxKafkaSilence = time.Second            // until Kafka is probed
)

// shard is one shard's poll. It belongs to one goroutine.
type shard struct {
	d           *Dispatcher
	number      int
	epoch       int64
	health      *health
	idle        time.Duration // longest sleep
	crowd       crowd
	head        *head
	unpublished bool                      // the shard has claimed entries that are unpublished
	acked       []protocol.Entry          // published or passed over, not yet removed from the due set
	calls       []*call                   // not answered yet
	inFlight    map[string]protocol.Score // the entries of calls, by member
	refusals    map[string]refusal        // of entries that wait for their retry, by member
	waiting     int                       // entries that wait because their destination refuses hints
	delayed     bool                      // entries wait for the answer to a call
	trouble     map[string]time.Time      // by queue: when Kafka last refused its hints, or didn't answer, while it took others
	refusing    map[destination]bool      // destinations that refused the last call
	answers     sync.WaitGroup            // of calls
	wakeUp      func()                    // ends the sleep; nil in tests that call passes
	asked       time.Time                 // when the shard last asked for its rebuild
}

func (s *shard) run(ctx context.Context, wake chan struct{}, succeeded func()) error {
	s.wakeUp = func() { loop.Rouse(wake) }
	ctx, cancel := context.WithCancel(ctx)
	defer s.answers.Wait()
	defer cancel() // before answers.Wait: a fenced term does not wait for Kafka's answers
	return loop.Run(ctx, loop.Config{
		Name: fmt.Sprintf("dispatch shard %d", s.number), Interval: s.idle,
		MinBackoff: 20 * time.Millisecond, MaxBackoff: time.Second, Wake: wake, Succeeded: succeeded, Logger: s.d.cfg.Logger,
	}, s.pass)
}

// pass runs the steps of the package comment once.
func (s *shard) pass(ctx context.Context) (loop.Result, error) {
	before, err := s.collectAnswers(ctx) // this claim acknowledges entries whose answers came since the last pass
	if err != nil {
		return loop.Result{}, fmt.Errorf("publish shard %d: %w", s.number, err)
	}
	now := s.d.cfg.Now()
	lead, limit := s.crowd.reach(now, s.d.cfg)
	wanted := s.claimLimit(limit)
	claim, err := s.d.index.Claim(ctx, s.number, s.epoch, now, lead, wanted, s.acked)
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
	s.forgetAbsent(claim.Entries)
	s.setUnpublished(len(claim.Entries) > 0)
	s.head.recordClaim(claim)
	sent, took, err := s.publish(ctx, claim.Entries, now)
	if err != nil {
		return loop.Result{}, err
	}
	s.recordWaiting(ctx, claim)
	s.health.completed(took || before)
	full := len(claim.Entries) == wanted
	claim.Entries = sent
	s.crowd.record(claim, lead, limit, now.Add(s.d.cfg.Lead))
	if !claim.Marked {
		s.askRebuild(ctx, now)
	}
	return s.next(claim, now, full), nil
}

func newShard(d *Dispatcher, number int, epoch int64, health *health, shards int) *shard {
	return &shard{
		d: d, number: number, epoch: epoch, health: health, idle: d.idle(shards), crowd: newCrowd(d.cfg.Lead, shards),
		inFlight: map[string]protocol.Score{}, refusals: map[string]refusal{},
		trouble: map[string]time.Time{}, refusing: map[destination]bool{},
	}
}

// claimLimit returns how many entries to claim, so that limit entries fit in besides those that wait unpublished in the due
// set.
func (s *shard) claimLimit(limit int) int {
	if s.health.away.Load() {
		return limit // no other entry could be published
	}
	return min(limit+len(s.inFlight)+len(s.refusals)+s.waiting, maxClaimFactor*s.d.cfg.Limit)
}

// recordWaiting records whether claimed entries are unpublished. If calls are not answered and nothing else shows
// whether Kafka is well, it sends a probe: without it, a term all of whose hints are refused would seem to make no
// progress.
func (s *shard) recordWaiting(ctx context.Context, claim protocol.Claim) {
	waits := len(s.inFlight)+len(s.refusals)+s.waiting > 0 || s.delayed
	s.setUnpublished(waits)
	if !waits {
		s.head.set(claim.Next)
		return
	}
	if len(s.calls) > 0 && !s.health.tookLately(maxKafkaSilence) && s.health.probe(ctx, maxKafkaSilence, s.sendRebuild) {
		s.health.term.Progress()
	}
}

// next returns when the next pass runs.
func (s *shard) next(claim protocol.Claim, now time.Time, full bool) loop.Result {
	next := s.untilRetry(now, s.untilNext(claim, now))
	if len(s.acked) > 0 {
		next = min(next, max(s.d.cfg.beat(), min(s.d.cfg.Lead, maxAckDelay)))
	}
	if full && len(s.acked) == 0 {
		return loop.Result{Next: max(next, waitingSleep)} // an answer ends the sleep
	}
	return loop.Result{More: full || s.crowd.sendsAhead() || next <= 0, Next: next}
}

// untilNext returns the time until the first unclaimed entry is to be claimed, at least a millisecond. If the entry is
// farther off than protocol.MaxLead, it returns the time until a crowd around the entry would show.
func (s *shard) untilNext(claim protocol.Claim, now time.Time) time.Duration {
	if claim.Next.IsZero() {
		return s.idle
	}
	wait := claim.Next.Sub(now)
	if s.d.cfg.Lead > 0 && wait > protocol.MaxLead {
		wait -= protocol.MaxLead
	} else {
		wait = claim.Next.Add(-s.d.cfg.Lead).Truncate(s.d.cfg.beat()).Sub(now)
	}
	return min(s.idle, max(wait, time.Millisecond))
}

// beat is the interval at which all shards claim single entries, at the same moments of the clock: so fewer claims take
// the same entries, and their hints go to Kafka together.
func (c Config) beat() time.Duration { return min(2*c.Lead, protocol.MaxLead-c.Lead) }

// reach returns how far ahead of now a claim goes: at the next beat no unclaimed entry is nearer than the lead time.
func (c Config) reach(now time.Time) time.Duration {
	return now.Truncate(c.beat()).Add(c.beat() + c.Lead).Sub(now)
}

// askRebuild asks the daemon to rebuild the shard, at most once per rebuildInterval. The daemon reads the markers too,
// so a lost request costs a second.
func (s *shard) askRebuild(ctx context.Context, now time.Time) {
	if now.Sub(s.asked).Abs() < rebuildInterval {
		return
	}
	s.asked = now
	if err := s.sendRebuild(ctx); err != nil {
		s.d.cfg.Logger.WarnContext(ctx, "rebuild not asked for", "shard", s.number, "err", err)
	}
}

// sendRebuild sends a request for the shard's rebuild. It also serves as a probe of Kafka: the daemon ignores the
// request if the shard has its memory.
func (s *shard) sendRebuild(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return s.d.stream.Compensate(ctx, protocol.Compensation{Rebuild: []int{s.number}})
}
