package streamtest

import (
	"context"
	"slices"
	"time"
)

// member is one call of Consume. It waits for a generation, or has a session.
type member struct {
	waiting  bool
	sessions chan *session // holds the session of the newest generation
	session  *session
}

// join adds a member, which ends the others' sessions.
func (t *topic) join() *member {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := &member{sessions: make(chan *session, 1)}
	t.waitForGeneration(m)
	return m
}

// awaitSession returns the member's next session. It is called after fn of the last session has returned.
func (t *topic) awaitSession(ctx context.Context, m *member) (*session, error) {
	t.mu.Lock()
	if !m.waiting && len(m.sessions) == 0 {
		t.waitForGeneration(m)
	}
	t.mu.Unlock()
	select {
	case s := <-m.sessions:
		return s, ctx.Err()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// waitForGeneration makes the member wait for the next generation; mu is held.
func (t *topic) waitForGeneration(m *member) {
	if !slices.Contains(t.members, m) {
		t.members = append(t.members, m)
	}
	m.waiting, m.session = true, nil
	t.rebalance()
}

// leave removes the member; the others share its partitions at once.
func (t *topic) leave(m *member) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.session != nil {
		m.session.lose()
	}
	t.members = slices.DeleteFunc(t.members, func(x *member) bool { return x == m })
	t.rebalance()
}

// rebalance ends all sessions and, when every member waits, begins the next generation; mu is held.
func (t *topic) rebalance() {
	busy := false
	for _, m := range t.members {
		if m.session != nil {
			m.session.lose()
		}
		busy = busy || !m.waiting
	}
	switch {
	case !busy:
		t.beginGeneration()
	case t.rebalanceTimer == nil:
		t.rebalanceTimer = time.AfterFunc(t.rebalanceTimeout, t.beginWithoutBusy)
	}
}

// beginWithoutBusy begins the next generation without the members whose fn has not returned.
func (t *topic) beginWithoutBusy() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rebalanceTimer == nil {
		return
	}
	t.members = slices.DeleteFunc(t.members, func(m *member) bool { return !m.waiting })
	t.beginGeneration()
}

// beginGeneration shares the partitions among the members; mu is held.
func (t *topic) beginGeneration() {
	if t.rebalanceTimer != nil {
		t.rebalanceTimer.Stop()
		t.rebalanceTimer = nil
	}
	t.gen++
	for i, m := range t.members {
		s := &session{topic: t, gen: t.gen, lost: make(chan struct{}), next: map[int]int64{}}
		for p := i; p < len(t.logs); p += len(t.members) {
			s.partitions = append(s.partitions, p)
			s.next[p] = t.logs[p].committed
		}
		m.waiting, m.session = false, s
		m.sessions <- s
	}
}
