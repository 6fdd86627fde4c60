package dispatch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/pkg/task"
)

const (
	rebuildEvery = time.Second            // a shard asks for its rebuild at most so often
	claimTimeout = 500 * time.Millisecond // how long asking may hold the shard up
	ackTimeout   = 100 * time.Millisecond // the longest that published entries wait for the next claim where there is no tick
	windows      = 3                      // how many times its limit a claim takes at most, to reach behind what waits
	stuckFor     = 200 * time.Millisecond // between claims that give nothing but what waits
	quietFor     = time.Second            // without an answer of Kafka's, until it is asked
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
	acked    []task.Entry          // published or passed over, not yet removed from the due set
	calls    []*call               // that Kafka has not answered yet
	flying   map[string]task.Score // the entries of calls, by member
	held     map[string]attempt    // by member: entries that wait for their next try
	waiting  int                   // entries that wait because Kafka refused others of their lane
	slow     bool                  // entries wait for the answer to a call that is under way
	trouble  map[string]time.Time  // by queue: when Kafka last refused a hint of it while it took others
	refusing map[lane]bool         // lanes whose last call was refused
	answers  sync.WaitGroup        // of calls
	rouse    func()                // ends the sleep; nil in tests that call passes
	asked    time.Time             // when a rebuild was last asked for
}

func (s *shard) run(ctx context.Context, wake chan struct{}, succeeded func()) error {
	s.rouse = func() { loop.Rouse(wake) }
	ctx, cancel := context.WithCancel(ctx)
	defer s.answers.Wait()
	defer cancel() // a fenced term waits for no answer
	return loop.Run(ctx, loop.Config{
		Name: fmt.Sprintf("dispatch shard %d", s.number), Interval: s.idle,
		MinBackoff: 20 * time.Millisecond, MaxBackoff: time.Second, Wake: wake, Succeeded: succeeded, Logger: s.d.cfg.Logger,
	}, s.pass)
}

// pass claims, publishes, and remembers what the next claim acknowledges.
func (s *shard) pass(ctx context.Context) (loop.Result, error) {
	s.ready()
	before, err := s.gather(ctx) // what was answered since goes along with the claim
	if err != nil {
		return loop.Result{}, fmt.Errorf("publish shard %d: %w", s.number, err)
	}
	now := s.d.cfg.Now()
	lead, limit := s.crowd.reach(now, s.d.cfg)
	window := s.window(limit)
	claim, err := s.d.index.Claim(ctx, s.number, s.epoch, now, lead, window, s.acked)
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
	s.forget(claim.Entries)
	s.owe(len(claim.Entries) > 0)
	s.head.claimed(claim)
	sent, took, err := s.publish(ctx, claim.Entries, now)
	if err != nil {
		return loop.Result{}, err
	}
	s.recordWaiting(ctx, claim)
	s.health.completed(took || before)
	full := len(claim.Entries) == window
	claim.Entries = sent
	s.crowd.record(claim, lead, limit, now.Add(s.d.cfg.Lead))
	if !claim.Marked {
		s.askRebuild(ctx, now)
	}
	return s.next(claim, now, full), nil
}

// ready makes the maps of a shard that has none yet.
func (s *shard) ready() {
	if s.flying == nil {
		s.flying, s.held = map[string]task.Score{}, map[string]attempt{}
		s.trouble, s.refusing = map[string]time.Time{}, map[lane]bool{}
	}
}

// window is how many entries to claim so that there is room for limit behind those that stand in the due set unpublished.
func (s *shard) window(limit int) int {
	if s.health.away.Load() {
		return limit // nothing gets by while Kafka takes nothing
	}
	return min(limit+len(s.flying)+len(s.held)+s.waiting, windows*s.d.cfg.Limit)
}

// recordWaiting says what is not published yet. Where calls are not answered and nothing else shows whether Kafka is well, it
// is asked, or a term whose only traffic is refused would seem to stand still.
func (s *shard) recordWaiting(ctx context.Context, claim task.Claim) {
	waits := len(s.flying)+len(s.held)+s.waiting > 0 || s.slow
	s.owe(waits)
	if !waits {
		s.head.waits(claim.Next)
		return
	}
	if len(s.calls) > 0 && !s.health.tookLately(quietFor) && s.health.ask(ctx, quietFor, s.probeKafka) {
		s.health.term.Progress()
	}
}

// next says when the next pass is to run.
func (s *shard) next(claim task.Claim, now time.Time, full bool) loop.Result {
	next := s.retry(now, s.sleep(claim, now))
	if len(s.acked) > 0 {
		next = min(next, max(s.d.cfg.tick(), min(s.d.cfg.Lead, ackTimeout)))
	}
	if full && len(s.acked) == 0 {
		return loop.Result{Next: max(next, stuckFor)} // an answer ends the sleep
	}
	return loop.Result{More: full || s.crowd.follows() || next <= 0, Next: next}
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
	if err := s.probeKafka(ctx); err != nil {
		s.d.cfg.Logger.WarnContext(ctx, "rebuild not asked for", "shard", s.number, "err", err)
	}
}

// probeKafka sends a request that is harmless when nothing has to be rebuilt.
func (s *shard) probeKafka(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	return s.d.stream.Compensate(ctx, task.Compensation{Rebuild: []int{s.number}})
}
