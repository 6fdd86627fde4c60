package loop

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/metric"
)

const (
	probeWindow   = 30 * time.Second       // how long a probe counts
	probeInterval = 500 * time.Millisecond // once the database's clock is set forward, due tasks wait this long
	maxClockGap   = 200 * time.Millisecond // larger gaps between the database's and the local clock are logged
	maxClockSlew  = 20 * time.Millisecond  // between two clocks within the window: slewing, and whole milliseconds
)

// Probe asks the database for its time, without waiting for anything else.
type Probe func(ctx context.Context) (time.Time, error)

// Clock tells the database's time without asking the database each time: the local monotonic clock plus an offset learnt
// from probes. Setting the local wall clock changes nothing. While the database can't be reached, the last offset
// stands. A Clock is safe for concurrent use.
//
// The offset comes from probes only: a statement may have waited for a lock, and its answer would be wrong by that wait.
// A Clock decides nothing: the row decides whether its task is due, under lock, on the database's own clock.
type Clock struct {
	probe  Probe
	logger *slog.Logger
	gap    prometheus.Gauge
	start  time.Time // with its monotonic reading: the wall clock may be set at any moment

	mu      sync.RWMutex
	offset  time.Duration // database − local
	samples []sample      // of the last window
	apart   bool          // the gap is larger than maxClockGap, which was logged
}

type sample struct {
	at     time.Duration // since start
	round  time.Duration
	offset time.Duration
}

// NewClock makes a clock that tells local time until its first probe. reg may be nil.
func NewClock(probe Probe, logger *slog.Logger, reg prometheus.Registerer) *Clock {
	gap := metric.Shared(reg, prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "duetime_clock_gap_seconds", Help: "How far the database's clock is ahead of this machine's.",
	}))
	return &Clock{probe: probe, logger: logger, start: time.Now(), gap: gap}
}

// Now returns the database's time as learnt.
func (c *Clock) Now() time.Time {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.Local().Add(c.offset).UTC()
}

// Local returns the local time as the monotonic clock counts it: this time never jumps.
func (c *Clock) Local() time.Time { return c.at(time.Since(c.start)) }

// at returns the local time at a duration after start, as the monotonic clock counts it.
func (c *Clock) at(since time.Duration) time.Time { return c.start.Round(0).Add(since) }

// Run probes twice a second until ctx ends; it returns nil.
func (c *Clock) Run(ctx context.Context) error { return c.RunEvery(ctx, probeInterval) }

// RunEvery probes at this interval until ctx ends; it returns nil.
func (c *Clock) RunEvery(ctx context.Context, interval time.Duration) error {
	return Run(ctx, Config{Name: "clock", Interval: interval, MaxBackoff: interval, Logger: c.logger},
		func(ctx context.Context) (Result, error) { return Result{}, c.Learn(ctx) })
}

// Learn probes once. The fastest probe of the last 30 s counts, because a probe knows the database's time only to within
// half of its round trip. If two probes contradict each other, the database's clock was set or another server answers:
// the older probe is forgotten at once.
func (c *Clock) Learn(ctx context.Context) error {
	sent := time.Since(c.start)
	answer, err := c.probe(ctx)
	if err != nil {
		return fmt.Errorf("probe the database's clock: %w", err)
	}
	received := time.Since(c.start)
	round := received - sent
	c.learn(sample{at: received, round: round, offset: answer.Sub(c.at(sent + round/2))})
	c.watchGap(ctx)
	return nil
}

func (c *Clock) learn(s sample) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.samples = append(slices.DeleteFunc(c.samples, func(old sample) bool {
		return s.at-old.at >= probeWindow || s.contradicts(old)
	}), s)
	best := s
	for _, other := range c.samples {
		if other.round < best.round {
			best = other
		}
	}
	c.offset = best.offset
}

// contradicts reports whether the two samples can't be of the same clock.
func (s sample) contradicts(other sample) bool {
	return (s.offset - other.offset).Abs() > (s.round+other.round)/2+maxClockSlew
}

// watchGap logs once when the clocks' gap exceeds maxClockGap, and once when it no longer does.
func (c *Clock) watchGap(ctx context.Context) {
	gap := c.Now().Sub(time.Now().Round(0))
	c.gap.Set(gap.Seconds())
	c.mu.Lock()
	was := c.apart
	c.apart = gap.Abs() > maxClockGap
	is := c.apart
	c.mu.Unlock()
	if is != was {
		c.logger.WarnContext(ctx, "clock gap", "gap", gap, "apart", is)
	}
}
