package hold

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/offsets"
)

// TakeAhead is how long before their moment hints are handed out: Go's timers may be a millisecond late, and BEGIN takes
// some of the time too.
const TakeAhead = 1500 * time.Microsecond

// maxParked bounds how many hints one look parks before it frees the lock: parking that many takes less than a
// millisecond.
const maxParked = 1000

// idleWait is how long a runner sleeps in an empty lane; Add wakes it.
const idleWait = time.Hour

// Hold keeps the hints of one queue. It is safe for concurrent use.
type Hold struct {
	clock *loop.Clock

	mu     sync.Mutex
	byKey  map[sharedKey]*Hint
	lanes  [Lanes]timeline
	owners map[string]*owner // owners with a runner, or with parked hints
	wake   [Lanes]chan struct{}
	paused bool // nothing is handed out
	found  Found

	adjusted, adjustedLocal time.Time // the last AdjustForClockStep, on the database's clock and on the local one
}

// New makes an empty hold.
func New(c *loop.Clock) *Hold {
	h := &Hold{clock: c, byKey: map[sharedKey]*Hint{}, owners: map[string]*owner{}}
	for i := range h.wake {
		h.wake[i] = make(chan struct{}, 1)
	}
	return h
}

// Add adds a hint, and reports whether it is new. If the hold has this hint already, the new message is settled with it.
func (h *Hold) Add(e *Hint) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if same, ok := h.byKey[e.key()]; ok {
		same.marks = append(same.marks, e.marks...)
		if same.Found && same.phase == waiting {
			same.Suspect = same.Suspect || e.Suspect // a look found the row before its moment
		}
		if same.phase == revoked && len(e.marks) > 0 {
			same.phase = inHand
		}
		return false
	}
	h.byKey[e.key()] = e
	if o := h.ownerInHand(e.Owner); o != nil {
		o.park(e, e.Lane)
		return true
	}
	h.push(e)
	return true
}

func (h *Hold) push(e *Hint) {
	line := &h.lanes[e.Lane]
	heap.Push(line, e)
	if (*line)[0].Hint == e {
		h.signal(e.Lane)
	}
}

func (h *Hold) signal(l Lane) { loop.Rouse(h.wake[l]) }

// Take waits until a hint of the lane is due within TakeAhead, and returns up to n due hints, without waiting for more;
// nil when ctx ends. The owners of these hints are the caller's until Release.
func (h *Hold) Take(ctx context.Context, l Lane, n int) []*Hint {
	for ctx.Err() == nil {
		taken, wait := h.takeDue(l, n)
		if len(taken) > 0 {
			return taken
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-h.wake[l]:
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

// takeDue takes up to n hints that are due within TakeAhead. It also returns how long no further hint will be due.
func (h *Hold) takeDue(l Lane, n int) ([]*Hint, time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.paused {
		return nil, idleWait
	}
	now, line := h.clock.Now(), &h.lanes[l]
	until := now
	if len(*line) > 0 {
		if next := line.next(); next.After(now) && !next.After(now.Add(TakeAhead)) {
			until = next // the transaction begins at this moment: hints after it would run early
		}
	}
	var taken []*Hint
	mine := map[string]bool{}
	for parked := 0; len(*line) > 0 && len(taken) < n && !line.next().After(until); {
		e := pop(line)
		o := h.owners[e.Owner]
		if o != nil && !o.free && !mine[e.Owner] {
			o.park(e, l)
			if parked++; parked == maxParked {
				break
			}
			continue
		}
		mine[e.Owner] = true
		h.assignOwner(o, e.Owner, l, now)
		e.phase = inHand
		taken = append(taken, e)
	}
	if len(*line) == 0 {
		return taken, idleWait
	}
	if len(taken) > 0 {
		h.signal(l) // race 4
	}
	return taken, line.next().Sub(now.Add(TakeAhead))
}

// Release takes back the hints of a Take: settled hints leave, the others wait until their LookAt. It returns the hints
// that it forgot, because their partitions were revoked meanwhile.
func (h *Hold) Release(taken []*Hint) (forgotten []*Hint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range taken {
		h.freeOwner(e.Owner)
		switch {
		case e.Settled:
			h.found.count(e)
			delete(h.byKey, e.key())
			e.settle()
		case e.phase == revoked:
			delete(h.byKey, e.key())
			forgotten = append(forgotten, e)
		case e.Dropped && len(e.marks) == 0:
			delete(h.byKey, e.key())
		default:
			e.phase, e.Dropped = waiting, false
			h.push(e)
		}
	}
	return forgotten
}

// Revoke gives up the messages of a generation that is over, and forgets the hints that no other message waits for.
// Hints that are with a runner stay there (race 5). Revoke returns the forgotten hints, and the partitions whose hints
// are still in hand.
func (h *Hold) Revoke(g *offsets.Generation) (forgotten []*Hint, busy map[int]bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.byKey {
		if e.revoke(g) && e.phase == inHand && !e.Found {
			e.phase = revoked
		}
	}
	h.remove(func(e *Hint) bool { return len(e.marks) == 0 && !e.Found }, func(e *Hint) { forgotten = append(forgotten, e) })
	busy = map[int]bool{}
	for _, e := range h.byKey {
		for _, part := range e.revoked {
			busy[part] = true
		}
	}
	return forgotten, busy
}

// ForgetFound forgets the waiting hints that looks found, and returns them: a message brings each again, or a look.
func (h *Hold) ForgetFound() (forgotten []*Hint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.remove(func(e *Hint) bool { return e.Found && len(e.marks) == 0 }, func(e *Hint) { forgotten = append(forgotten, e) })
	return forgotten
}

// FoundInHand reports whether a hint that a look found is with a runner.
func (h *Hold) FoundInHand() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.byKey {
		if e.Found && e.phase != waiting {
			return true
		}
	}
	return false
}

// Found counts found hints that were settled.
type Found struct {
	Settled int
	Missed  int // of these, awaited ones for which no message had come
}

func (f *Found) count(e *Hint) {
	if !e.Found {
		return
	}
	f.Settled++
	if e.Awaited && len(e.marks) == 0 {
		f.Missed++
	}
}

// TakeFound returns what was counted since the last call.
func (h *Hold) TakeFound() Found {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.found
	h.found = Found{}
	return f
}

// HasDue reports whether a hint waits although its moment has come: all runners of its lane are busy.
func (h *Hold) HasDue() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock.Now()
	for l := range h.lanes {
		if len(h.lanes[l]) > 0 && !h.lanes[l].next().After(now) {
			return true
		}
	}
	return false
}

// Pause pauses or resumes the queue; false if this changes nothing.
func (h *Hold) Pause(paused bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.paused == paused {
		return false
	}
	h.paused = paused
	for l := range h.wake {
		h.signal(Lane(l))
	}
	return true
}

// Paused reports whether nothing is handed out.
func (h *Hold) Paused() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.paused
}

// Len returns the number of hints held, with runners or not.
func (h *Hold) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.byKey)
}
