package settle

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/loop"
)

// Bounds of the time between two probes of a closed gate.
const (
	MinProbeInterval = 100 * time.Millisecond
	MaxProbeInterval = 2 * time.Second
)

// Gate is closed while MySQL is away: no hints are fetched or taken, no attempt is charged, and no hint expires.
type Gate struct {
	clock  *loop.Clock
	closes prometheus.Counter
	log    *slog.Logger
	closed chan struct{} // a message for each closing

	mu       sync.Mutex
	opened   chan struct{} // closed while the gate is open
	since    time.Time     // on the local clock: when the gate was closed, or last probed in vain
	interval time.Duration // until the next probe
	// intervals grow while MySQL answers probes but no transaction commits, for example on a read-only replica.
	intervals backoff.ExponentialBackOff
}

func newGate(clock *loop.Clock, closes prometheus.Counter, log *slog.Logger) *Gate {
	g := &Gate{
		clock: clock, closes: closes, log: log, closed: make(chan struct{}, 1), opened: make(chan struct{}),
		intervals: backoff.ExponentialBackOff{InitialInterval: MinProbeInterval, MaxInterval: MaxProbeInterval, Multiplier: 2},
	}
	close(g.opened)
	return g
}

// Closed receives a message when the gate was closed.
func (g *Gate) Closed() <-chan struct{} { return g.closed }

// Close closes the gate: MySQL is away.
func (g *Gate) Close(ctx context.Context, cause error) {
	g.mu.Lock()
	if !g.isOpen() {
		g.mu.Unlock()
		return
	}
	g.opened, g.since, g.interval = make(chan struct{}), g.clock.Local(), g.intervals.NextBackOff()
	g.mu.Unlock()
	g.closes.Inc()
	g.log.WarnContext(ctx, "paused, database is away", slog.Any("err", cause))
	loop.Rouse(g.closed)
}

// Open opens the gate.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isOpen() {
		close(g.opened)
	}
}

// committed resets the probe interval, because a transaction has committed.
func (g *Gate) committed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.intervals.Reset()
	g.interval = MinProbeInterval
}

// NextProbe reports whether the gate is closed, and the time until the next probe of MySQL.
func (g *Gate) NextProbe() (closed bool, wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isOpen() {
		return false, 0
	}
	return true, g.interval - g.clock.Local().Sub(g.since)
}

// ProbeFailed restarts the time until the next probe.
func (g *Gate) ProbeFailed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.since = g.clock.Local()
}

func (g *Gate) isOpen() bool {
	select {
	case <-g.opened:
		return true
	default:
		return false
	}
}

// Wait returns when the gate is open, or with an error when ctx ends.
func (g *Gate) Wait(ctx context.Context) error {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	select {
	case <-opened:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
