package deliver

import (
	"log/slog"
	"math/rand/v2"
	"net/url"
	"strings"
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
	kinds  []string     // that are delivered to the endpoint; Pusher.mu guards them
}

// breakerOf returns the breaker of the URL, for one more kind. Others behind the same gateway may be well, so health is the URL's, not
// the host's.
func (p *Pusher) breakerOf(u *url.URL, kind string) *breaker {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b := p.breakers[u.String()]; b != nil {
		b.kinds = append(b.kinds, kind)
		return b
	}
	b := &breaker{kinds: []string{kind}}
	p.metrics.show(u.Host)
	b.CircuitBreaker = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:      p.open,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= failuresToOpen },
		IsSuccessful: func(err error) bool { return outcomeOf(err) != "failed" },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			switch {
			case from == gobreaker.StateClosed:
				b.opened.Store(time.Now().UnixMilli())
				p.log.Warn("endpoint is away, its tasks wait", slog.String("endpoint", u.Host),
					slog.String("kinds", p.show(b, u.Host)), slog.Int("n", failuresToOpen))
			case to == gobreaker.StateClosed:
				b.opened.Store(0)
				p.log.Info("endpoint is back", slog.String("endpoint", u.Host), slog.String("kinds", p.show(b, u.Host)))
			}
		},
	})
	p.breakers[u.String()] = b
	return b
}

// show shows whether any endpoint of the host is away: their URLs may hold tokens, so the host labels the metric. It returns the
// breaker's kinds, which tell them apart in the log.
func (p *Pusher) show(b *breaker, host string) (kinds string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.opened.Load() != 0 {
		p.away[host]++
	} else {
		p.away[host]--
	}
	p.metrics.open.WithLabelValues(host).Set(float64(min(p.away[host], 1)))
	return strings.Join(b.kinds, ",")
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
