package wheel

import "github.com/duetime/duetime/bench/queue"

// timer is a pending job and where it stands.
type timer struct {
	job  queue.Job
	tick int64 // when it is due
	slot *slot
	at   int // in the slot
}

// slot is an unsorted list of timers, from which one leaves in constant time.
type slot []*timer

func (s *slot) add(t *timer) {
	t.slot, t.at = s, len(*s)
	*s = append(*s, t)
}

// leave puts the last timer of the slot into t's place.
func (t *timer) leave() {
	s := *t.slot
	last := s[len(s)-1]
	s[t.at], last.at = last, t.at
	s[len(s)-1] = nil
	*t.slot = s[:len(s)-1]
}
