package deliver

import (
	"net"
	"time"
)

// ResolveBy makes the Pusher ask a resolver of the test's.
func (p *Pusher) ResolveBy(r *net.Resolver) { p.dialer.Resolver = r }

// OpenFor sets how long breakers stay open, of endpoints that are registered afterwards.
func (p *Pusher) OpenFor(d time.Duration) { p.open = d }
