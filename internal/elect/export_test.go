package elect

import (
	"context"
	"time"
)

// SessionTimeout returns the timeout that the servers granted; before the first session, the one to ask for. A dead
// leader is replaced after about this time.
func (z *ZooKeeper) SessionTimeout() time.Duration {
	z.session.mu.Lock()
	defer z.session.mu.Unlock()
	return z.session.timeout
}

// SessionTimeout is 0: a place can only be lost by Depose.
func (l *Local) SessionTimeout() time.Duration { return 0 }

// Ready returns nil: there is no session to wait for.
func (l *Local) Ready(context.Context) error { return nil }
