package hold

import (
	"context"
	"sync"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/offsets"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
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
	ranks map[string]int // of kinds with a priority that is not Normal; never changed

	mu      sync.Mutex
	byKey   map[sharedKey]*Hint
	lanes   [Lanes]lines
	owners  map[string]*owner // owners with a runner, or with parked hints
	resting []string          // owners without a runner, which are freed after the next take
	wake    [Lanes]chan struct{}
	paused  time.Time     // nothing is handed out before; zero: the queue is not paused
	seat    chan struct{} // see ShareSeat
	waits   bool          // for the seat, with a due suspect
	found   Found
	heads   map[task.ID]bool // tasks for which hints are held; some may have ended elsewhere

	allowed allowance

	adjusted, adjustedLocal time.Time // the last AdjustForClockStep, on the database's clock and on the local one
}

// New makes an empty hold. Kinds that are not among those given have task.Normal priority.
func New(c *loop.Clock, kinds ...task.KindInfo) *Hold {
	h := &Hold{clock: c, ranks: map[string]int{}, byKey: map[sharedKey]*Hint{}, owners: map[string]*owner{}, heads: map[task.ID]bool{}}
	for _, k := range kinds {
		h.ranks[protocol.HintKind(k.Name)] = rank[k.Priority]
	}
	h.allowed.asked = make(chan struct{}, 1)
	for i := range h.wake {
		h.wake[i] = make(chan struct{}, 1)
	}
	return h
}

// ShareSeat has the suspects of several holds run one at a time: seat has room for one, and is full while one is with a runner. A
// suspect waits for the seat before its owner and the queue's limit are taken for it: race 6. Call it before the first Take.
func (h *Hold) ShareSeat(seat chan struct{}) { h.seat = seat }

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
	e.rank = h.rankOf(e.Kind)
	if o := h.ownerInHand(e.Owner); o != nil {
		o.park(e, e.Lane)
		return true
	}
	h.push(e)
	return true
}

func (h *Hold) rankOf(kind string) int {
	if r, ok := h.ranks[kind]; ok {
		return r
	}
	return rank[task.Normal]
}

// push has the hint wait in its lane. One that has a slot goes before those of its owner that have none: its slot would be lost.
func (h *Hold) push(e *Hint) {
	if h.allowed.ofOwners != nil {
		if e.rank = h.rankOf(e.Kind); e.hasSlot() {
			e.rank = rank[task.High]
		}
	}
	if h.lanes[e.Lane].push(e) {
		h.signal(e.Lane)
	}
}

func (h *Hold) signal(l Lane) { loop.Rouse(h.wake[l]) }

// Take waits until a hint of the lane is due within TakeAhead, and returns up to n due hints, without waiting for more;
// nil when ctx ends. The owners of these hints are the caller's until Release.
func (h *Hold) Take(ctx context.Context, l Lane, n int) []*Hint {
	for ctx.Err() == nil {
		taken, wait := h.takeSeated(ctx, l, n)
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

// takeSeated is takeDue once the lane's seat is free. Release frees the seat.
func (h *Hold) takeSeated(ctx context.Context, l Lane, n int) ([]*Hint, time.Duration) {
	if l != LaneSuspect || h.seat == nil {
		return h.takeDue(l, n)
	}
	if wait := h.awaitSuspect(); wait > 0 {
		return nil, wait
	}
	defer h.setWaits(false)
	select {
	case h.seat <- struct{}{}:
	case <-ctx.Done():
		return nil, 0
	}
	taken, wait := h.takeDue(l, n)
	if len(taken) == 0 {
		<-h.seat
		return nil, wait
	}
	taken[0].seated = true
	return taken, wait
}

// awaitSuspect returns how long no suspect will be due. If one is, it waits for the seat from now on.
func (h *Hold) awaitSuspect() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock.Now()
	h.wakeOwners(now)
	_, wait := h.dueIn(LaneSuspect, now)
	h.waits = wait <= 0
	return wait
}

func (h *Hold) setWaits(waits bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waits = waits
}

// takeDue takes up to n hints that are due within TakeAhead. It also returns how long no further hint will be due.
func (h *Hold) takeDue(l Lane, n int) ([]*Hint, time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken, wait := h.take(l, n)
	if len(taken) == 0 && wait < 0 {
		return nil, wait // it has parked maxParked hints, and goes on
	}
	if h.wakeOwners(h.clock.Now()) && len(taken) == 0 {
		return h.take(l, n)
	}
	return taken, wait
}

func (h *Hold) take(l Lane, n int) ([]*Hint, time.Duration) {
	now, line := h.clock.Now(), &h.lanes[l]
	next, wait := h.dueIn(l, now)
	if wait > 0 {
		return nil, wait
	}
	until := now
	if next.After(now) {
		until = next // the transaction begins at this moment: hints after it would run early
	}
	room, retry := h.allowed.room(n, until)
	taken := h.takeUntil(l, until, room)
	if room == 0 {
		h.allowed.refuse(until)
		return nil, retry.Sub(now)
	}
	next, ok := line.next()
	if !ok {
		return taken, idleWait
	}
	if len(taken) > 0 {
		h.signal(l) // race 4
	}
	return taken, next.Sub(now.Add(TakeAhead))
}

// dueIn returns the moment of the lane's first hint, and how long no hint of the lane is to be handed out.
func (h *Hold) dueIn(l Lane, now time.Time) (next time.Time, wait time.Duration) {
	next, ok := h.lanes[l].next()
	switch {
	case !ok:
		return next, idleWait
	case now.Before(h.paused):
		return next, min(idleWait, h.paused.Sub(now))
	}
	return next, next.Sub(now.Add(TakeAhead))
}

// takeUntil takes up to n hints of the lane that are due until a moment, those of the highest priority first.
func (h *Hold) takeUntil(l Lane, until time.Time, n int) (taken []*Hint) {
	lane, mine, parked := &h.lanes[l], map[string]bool{}, 0
	for line := lane.due(until); line != nil && len(taken) < n; line = lane.due(until) {
		e := pop(line)
		o := h.owners[e.Owner]
		if o != nil && !o.free && !mine[e.Owner] {
			o.park(e, l)
			if parked++; parked == maxParked {
				break
			}
			continue
		}
		if !h.allowed.admit(e, until) {
			h.push(e)
			if parked++; parked == maxParked {
				break
			}
			continue
		}
		mine[e.Owner] = true
		h.assignOwner(o, e.Owner, l, until)
		h.allowed.spend(e, until)
		e.phase = inHand
		taken = append(taken, e)
	}
	if len(taken) > 0 {
		h.allowed.running++
	}
	return taken
}

// Release takes back the hints of a Take: settled hints leave, the others wait until their LookAt. It returns the hints
// that it forgot, because their partitions were revoked meanwhile.
func (h *Hold) Release(taken []*Hint) (forgotten []*Hint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock.Now()
	h.allowed.release(taken, now)
	if h.allowed.limit.Concurrency > 0 {
		h.signalAll() // a permit is free
	}
	h.freeOwners(taken, now)
	defer h.wakeBehind(taken, now)
	for _, e := range taken {
		if e.seated {
			e.seated = false
			<-h.seat
		}
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
			e.phase, e.Dropped, e.revoked = waiting, false, nil
			h.noteHead(e)
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

// HasDue reports whether a hint waits although its moment has come: all runners of its lane are busy. A suspect that waits for one
// of another queue says nothing about this queue's runners.
func (h *Hold) HasDue() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock.Now()
	for l := range h.lanes {
		if at, ok := h.nextOf(Lane(l)); ok && !at.After(now) {
			return true
		}
	}
	return false
}

// nextOf is the lane's next moment; false also for suspects that wait for the seat: nothing of theirs can be handed out.
func (h *Hold) nextOf(l Lane) (time.Time, bool) {
	if l == LaneSuspect && h.waits {
		return time.Time{}, false
	}
	return h.lanes[l].next()
}

// Pause has nothing handed out before a moment; the zero one resumes the queue.
func (h *Hold) Pause(until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endPause(h.clock.Now())
	if h.paused.Equal(until) {
		return
	}
	if until.IsZero() {
		h.resetPatience()
	}
	h.paused = until
	h.signalAll()
}

// endPause begins patience anew once a pause has ended by itself: hints can't be settled during a pause.
func (h *Hold) endPause(now time.Time) {
	if !h.paused.IsZero() && !now.Before(h.paused) {
		h.paused = time.Time{}
		h.resetPatience()
	}
}

// Paused reports whether nothing is handed out.
func (h *Hold) Paused() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.clock.Now().Before(h.paused)
}

// Len returns the number of hints held, with runners or not.
func (h *Hold) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.byKey)
}
