package worker

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/offsets"
	"github.com/duetime/duetime/pkg/task"
)

// heldKey makes hints one when they speak of the same version of the same task.
type heldKey struct {
	id      task.ID
	version int64
}

// held is a hint on its way from Kafka to being settled. Its mutable fields belong to the hold while it waits and to the
// runner that took it until it is given back.
type held struct {
	hint  task.Hint
	at    time.Time      // when to look next, on the database's clock
	since time.Time      // when it came, or its moment if that is later
	marks []offsets.Mark // the messages that wait for it; guarded by the hold
	lane  lane

	traceparent string // of the call that published it; empty without tracing

	suspect   bool   // may have been running when the last owner of its partition died
	charged   bool   // an attempt was charged before its handler runs
	chargedAt int64  // the row version that this made
	alone     bool   // must not share a transaction any more
	result    result // of the last look
	tried     int    // times it was looked at without being settled
	unknown   bool   // a commit with it was sent and never answered
	failure   error  // of its handler, to be charged
	failed    int64  // the row version at which it failed
	called    int64  // the row version with which its handler was called in the present transaction; 0 for not yet
	outside   bool   // the handler that was called acts outside the transaction
	losses    int    // times its connection ended after its handler was called, although MySQL was there
	settled   bool   // nothing more is to be done
	gone      bool   // its messages are another worker's now; guarded by the hold
	parts     []int  // the partitions of those; guarded by the hold
}

func (h *held) key() heldKey { return heldKey{h.hint.ID, h.hint.Version} }

// How long before their moment hints are handed out, since a timer may be a millisecond late; and when their transaction
// begins, which takes about as long, and from then on keeps all others from writing to SQLite.
const (
	lead      = 1500 * time.Microsecond
	beginning = 300 * time.Microsecond
)

// parkAtOnce is how many due hints of owners who are with a runner are put aside before the lock is given to others: less
// than a millisecond's work.
const parkAtOnce = 1000

// hold keeps hints in time order until their moment, and hands those that are due to the runners of their lane. Hints of
// one owner are never with two runners at once: they would lock the same business rows from two sides.
type hold struct {
	clock *loop.Clock

	mu     sync.Mutex
	byKey  map[heldKey]*held
	lanes  [lanes]timeline
	busy   map[string]*owned // owners with a runner, or with hints that wait for their turn behind another
	wake   [lanes]chan struct{}
	paused bool // nothing is handed out

	followed, followedLocal time.Time // when follow was last called, by the database's clock and by the local one
}

func newHold(c *loop.Clock) *hold {
	h := &hold{clock: c, byKey: map[heldKey]*held{}, busy: map[string]*owned{}}
	for i := range h.wake {
		h.wake[i] = make(chan struct{}, 1)
	}
	return h
}

// add takes a hint in. A second message of a hint that is held shares its fate.
func (h *hold) add(e *held) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if same, ok := h.byKey[e.key()]; ok {
		same.marks = append(same.marks, e.marks...)
		same.gone = false
		return
	}
	h.byKey[e.key()] = e
	if o := h.busy[e.hint.Owner]; o != nil && !o.free {
		o.park(e, e.lane)
		return
	}
	h.push(e)
}

func (h *hold) push(e *held) {
	line := &h.lanes[e.lane]
	heap.Push(line, e)
	if (*line)[0].held == e {
		h.signal(e.lane)
	}
}

func (h *hold) signal(l lane) {
	select {
	case h.wake[l] <- struct{}{}:
	default:
	}
}

// take waits until something of the lane is due but for lead, and gives up to n of it, without lingering for more; nil
// when ctx ends. The owners of what it gives are the caller's until release.
func (h *hold) take(ctx context.Context, l lane, n int) []*held {
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

// due takes what is due but for lead, or tells how long nothing will be.
func (h *hold) due(l lane, n int) ([]*held, time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.paused {
		return nil, time.Hour
	}
	now, line := h.clock.Now(), &h.lanes[l]
	until := now
	if len(*line) > 0 {
		if next := line.next(); next.After(now) && !next.After(now.Add(lead)) {
			until = next // and nothing after it, for which it would have to wait
		}
	}
	var taken []*held
	mine := map[string]bool{}
	for parked := 0; len(*line) > 0 && len(taken) < n && !line.next().After(until); {
		e := pop(line)
		o := h.busy[e.hint.Owner]
		if o != nil && !o.free && !mine[e.hint.Owner] {
			o.park(e, l)
			if parked++; parked == parkAtOnce {
				break // others want the lock too
			}
			continue
		}
		mine[e.hint.Owner] = true
		h.occupy(o, e.hint.Owner, l, now)
		taken = append(taken, e)
	}
	if len(*line) == 0 {
		return taken, time.Hour
	}
	if len(taken) > 0 {
		h.signal(l) // the caller won't be there for the next moment: an idle runner must set its timer anew
	}
	return taken, line.next().Sub(now.Add(lead))
}

// release gives back what take gave: the settled ones leave, the others wait for the time in their at. It gives those
// that nobody here waits for any more.
func (h *hold) release(taken []*held) []*held {
	h.mu.Lock()
	defer h.mu.Unlock()
	var gone []*held
	for _, e := range taken {
		h.vacate(e.hint.Owner)
		switch {
		case e.settled:
			h.settle(e)
		case e.gone:
			delete(h.byKey, e.key())
			gone = append(gone, e)
		default:
			h.push(e)
		}
	}
	return gone
}

func (h *hold) settle(e *held) {
	delete(h.byKey, e.key())
	for _, m := range e.marks {
		m.Settle()
	}
	e.marks = nil
}

// forget gives up the messages of a generation that is over, and the hints that no other message waits for. What is with a
// runner stays there: the row decides whether it still counts. It gives the hints that it forgot, and the partitions of which
// something is still with a runner.
func (h *hold) forget(g *offsets.Generation) (gone []*held, inHand map[int]bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.byKey {
		kept := e.marks[:0]
		for _, m := range e.marks {
			if m.Generation() != g {
				kept = append(kept, m)
			} else {
				e.parts = append(e.parts, m.Partition())
			}
		}
		e.marks = kept
		e.gone = len(kept) == 0
	}
	h.sweep(func(e *held) bool { return e.gone }, func(e *held) {
		delete(h.byKey, e.key())
		gone = append(gone, e)
	})
	inHand = map[int]bool{}
	for _, e := range h.byKey {
		for _, part := range e.parts {
			inHand[part] = true
		}
	}
	return gone, inHand
}

// chargePatience is how many times longer a hint is kept whose failure is not charged yet, because the server still runs
// the statement that its handler left behind, or because its connection was lost and it is tried again: were it forgotten,
// the handler would be called again and never charged.
const chargePatience = 12

// letGo settles, unlooked at, the waiting hints that have been stuck for longer than patience, and gives their number:
// one of them would keep the offsets of all behind it from being committed. A hint that merely waits for a free runner
// is not stuck.
func (h *hold) letGo(patience time.Duration) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, n := h.clock.Now(), 0
	h.sweep(func(e *held) bool {
		allowed := patience
		if e.failure != nil || e.losses > 0 {
			allowed *= chargePatience
		}
		return now.Sub(e.since) > allowed && h.stuck(e, now, allowed)
	}, func(e *held) { h.settle(e); n++ })
	return n
}

// stuck tells a hint that looks can't settle, or whose owner's runner doesn't come back, from one that waits its turn:
// that one's moment has gone by, and nobody has looked since.
func (h *hold) stuck(e *held, now time.Time, patience time.Duration) bool {
	if h.isBusy(e.hint.Owner) {
		return now.Sub(h.busy[e.hint.Owner].since) > patience
	}
	return e.tried > 0 && now.Sub(e.at) < 2*retryPause
}

// clockSet is by how much more the database's clock must have moved than the local one to have been set.
const clockSet = time.Second

// follow makes good what the setting of the database's clock since the last call would do: hints would wait for longer than
// patience, as none is ever put off, or seem to have waited for as much longer as the clock was set on.
func (h *hold) follow(patience time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last, then := h.followed, h.followedLocal
	h.followed, h.followedLocal = h.clock.Now(), h.clock.Local()
	switch set := h.followed.Sub(last) - h.followedLocal.Sub(then); {
	case last.IsZero():
	case set > clockSet:
		h.renew()
	case h.followed.Before(last):
		h.recall(patience)
	}
}

// recall has those hints looked at now that would wait for longer than patience.
func (h *hold) recall(patience time.Duration) {
	now := h.clock.Now()
	h.lines(func(line *timeline, l lane, taken bool) {
		recalled := false
		for i, s := range *line {
			if s.at.Sub(now) > patience {
				s.at, s.since, recalled = now, now, true
				(*line)[i] = turnOf(s.held)
			}
		}
		if recalled {
			heap.Init(line)
		}
		if recalled && taken {
			h.signal(l)
		}
	})
}

// excuse gives every waiting hint its patience anew, after a pause that was no fault of theirs.
func (h *hold) excuse() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.renew()
}

func (h *hold) renew() {
	now := h.clock.Now()
	h.lines(func(line *timeline, _ lane, _ bool) {
		for _, s := range *line {
			if s.since.Before(now) {
				s.since = now
			}
		}
	})
	for _, o := range h.busy {
		o.since = now
	}
}

// size is the number of hints held, with runners or not.
func (h *hold) size() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.byKey)
}
