package hold

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/offsets"
)

// TakeAhead is how long before their moment hints are handed out, because a timer may be a millisecond late.
const TakeAhead = 1500 * time.Microsecond

// maxParked is how many due hints of owners who are with a runner are put aside before the lock is given to others: less than
// a millisecond's work.
const maxParked = 1000

// idleWait is how long a runner sleeps in a lane that has nothing; Add wakes it.
const idleWait = time.Hour

// Hold keeps the hints of one queue. It is safe for concurrent use.
type Hold struct {
	clock *loop.Clock

	mu     sync.Mutex
	byKey  map[sharedKey]*Hint
	lanes  [Lanes]timeline
	owners map[string]*owner // those with a runner, or with hints that wait behind another of theirs
	wake   [Lanes]chan struct{}
	paused bool // nothing is handed out

	adjusted, adjustedLocal time.Time // of the last AdjustForClockStep, by the database's clock and by the local one
}

// New makes an empty hold.
func New(c *loop.Clock) *Hold {
	h := &Hold{clock: c, byKey: map[sharedKey]*Hint{}, owners: map[string]*owner{}}
	for i := range h.wake {
		h.wake[i] = make(chan struct{}, 1)
	}
	return h
}

// Add takes a hint in. A second message of a hint that is held shares its fate.
func (h *Hold) Add(e *Hint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if same, ok := h.byKey[e.key()]; ok {
		same.marks = append(same.marks, e.marks...)
		if same.phase == revoked {
			same.phase = inHand
		}
		return
	}
	h.byKey[e.key()] = e
	if o := h.busy(e.Owner); o != nil {
		o.park(e, e.Lane)
		return
	}
	h.push(e)
}

func (h *Hold) push(e *Hint) {
	line := &h.lanes[e.Lane]
	heap.Push(line, e)
	if (*line)[0].Hint == e {
		h.signal(e.Lane)
	}
}

func (h *Hold) signal(l Lane) { loop.Rouse(h.wake[l]) }

// Take waits until something of the lane is due within TakeAhead, and gives up to n of it, without lingering for more; nil
// when ctx ends. The owners of what it gives are the caller's until Release.
func (h *Hold) Take(ctx context.Context, l Lane, n int) []*Hint {
	for ctx.Err() == nil {
		taken, wait := h.due(l, n)
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

// due takes what is due within TakeAhead, or returns how long nothing will be.
func (h *Hold) due(l Lane, n int) ([]*Hint, time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.paused {
		return nil, idleWait
	}
	now, line := h.clock.Now(), &h.lanes[l]
	until := now
	if len(*line) > 0 {
		if next := line.next(); next.After(now) && !next.After(now.Add(TakeAhead)) {
			until = next // and nothing after it, for which it would have to wait
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
				break // others want the lock too
			}
			continue
		}
		mine[e.Owner] = true
		h.occupy(o, e.Owner, l, now)
		e.phase = inHand
		taken = append(taken, e)
	}
	if len(*line) == 0 {
		return taken, idleWait
	}
	if len(taken) > 0 {
		h.signal(l) // the caller won't be there for the next moment: an idle runner must set its timer anew
	}
	return taken, line.next().Sub(now.Add(TakeAhead))
}

// Release gives back what Take gave: the settled hints leave, the others wait until their LookAt. It returns the hints that it
// forgot, because their partitions were revoked meanwhile.
func (h *Hold) Release(taken []*Hint) (forgotten []*Hint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range taken {
		h.vacate(e.Owner)
		switch {
		case e.Settled:
			delete(h.byKey, e.key())
			e.settle()
		case e.phase == revoked:
			delete(h.byKey, e.key())
			forgotten = append(forgotten, e)
		default:
			e.phase = waiting
			h.push(e)
		}
	}
	return forgotten
}

// Revoke gives up the messages of a generation that is over, and the hints that no other message waits for. What is with a
// runner stays there: the row decides whether it still counts. It returns the hints that it forgot, and the partitions of
// which something is still in hand.
func (h *Hold) Revoke(g *offsets.Generation) (forgotten []*Hint, busy map[int]bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.byKey {
		if e.revoke(g) && e.phase == inHand {
			e.phase = revoked
		}
	}
	h.remove(func(e *Hint) bool { return len(e.marks) == 0 }, func(e *Hint) { forgotten = append(forgotten, e) })
	busy = map[int]bool{}
	for _, e := range h.byKey {
		for _, part := range e.revoked {
			busy[part] = true
		}
	}
	return forgotten, busy
}

// Pause stops the handing out of hints, or starts it again; false if it was so already.
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
