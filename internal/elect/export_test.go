package elect

import "time"

// SessionTimeout returns the timeout that the servers granted; before the first session, the one to ask for. A dead
// leader is replaced after about this time.
func (z *ZooKeeper) SessionTimeout() time.Duration {
	z.session.mu.Lock()
	defer z.session.mu.Unlock()
	return z.session.timeout
}
