package deliver

import (
	"log/slog"
	"math/rand/v2"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

const (
	failuresToOpen = 5               // requests in a row that open a breaker
	breakerOpen    = 5 * time.Second // then one request probes the endpoint
	minDelay       = 2 * time.Second // of a task of an endpoint that is away
	maxDelay       = 5 * time.Minute // or up to twice that
	delayShare     = 4               // a task waits for a quarter to a half of the time that its endpoint has been away
)

// breaker keeps requests from an endpoint that is away.
type breaker struct {
	*gobreaker.CircuitBreaker[struct{}]

	opened atomic.Int64 // since when the endpoint is away, in Unix milliseconds; 0 if it is not
}

// breakerOf returns the breaker of the URL's scheme, host and port.
func (p *Pusher) breakerOf(u *url.URL) *breaker {
	p.mu.Lock()
	defer p.mu.Unlock()
	origin := u.Scheme + "://" + u.Host
	if b := p.breakers[origin]; b != nil {
		return b
	}
	b := &breaker{}
	p.metrics.show(u.Host)
	shown := p.metrics.open.WithLabelValues(u.Host)
	b.CircuitBreaker = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:      p.open,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= failuresToOpen },
		IsSuccessful: func(err error) bool { return outcomeOf(err) != "failed" },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			switch {
			case from == gobreaker.StateClosed:
				b.opened.Store(time.Now().UnixMilli())
				shown.Set(1)
				p.log.Warn("endpoint is away, its tasks wait", slog.String("endpoint", u.Host), slog.Int("n", failuresToOpen))
			case to == gobreaker.StateClosed:
				b.opened.Store(0)
				shown.Set(0)
				p.log.Info("endpoint is back", slog.String("endpoint", u.Host))
			}
		},
	})
	p.breakers[origin] = b
	return b
}

// delay returns how long a task waits while the breaker is open. The longer the endpoint has been away, the longer its tasks
// wait: each look at a task costs transactions.
func (b *breaker) delay() time.Duration {
	shortest := minDelay
	if opened := b.opened.Load(); opened != 0 {
		shortest = min(max(time.Since(time.UnixMilli(opened))/delayShare, minDelay), maxDelay)
	}
	return shortest + rand.N(shortest) //nolint:gosec // Spreads load, guards nothing.
}
