package limit

import (
	"math/rand/v2"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// Constants of the slots. A rate is kept over any 10 s to within 5 %: burst is less than that.
const (
	burst    = 100 * time.Millisecond // a call that comes so late keeps its slot's moment, or lines would fall behind their promises
	maxWait  = time.Second            // a slot that is nearer is waited for; one that is farther is worth a write of the task's row
	farthest = 24 * time.Hour         // the latest slot that is promised

	unusedTime = 200 * time.Millisecond // if nobody comes for a slot for so long, anybody may have it
	graceTime  = time.Second            // and if for so long, nobody comes for the later ones either
)

// OwnerSlots gives slots to tasks, by a rate for each of many owners. One worker has all hints of an owner, so that it needs to ask nobody. It
// begins anew with each worker, and with each change of the rate. It is not safe for concurrent use.
type OwnerSlots struct {
	step   time.Duration
	owners map[string]*line
}

// line is that of one owner.
type line struct {
	next  time.Time // the next call's moment
	first time.Time // the end of the line of tasks that came once: slots before it are promised to them
	later time.Time // the end of the line of those that came twice or more: it takes all slots while it stands

	free, taken time.Time // next before the slots that were free so long were taken, and when they were
}

// NewOwnerSlots returns slots at a rate for each owner; nil for the zero rate, which sets no bound.
func NewOwnerSlots(rate task.Rate) *OwnerSlots {
	if rate == (task.Rate{}) {
		return nil
	}
	return &OwnerSlots{step: rate.Span(1), owners: map[string]*line{}}
}

// Owners returns the number of owners whose slots are known.
func (t *OwnerSlots) Owners() int { return len(t.owners) }

// Visit is how often a task comes for a slot.
type Visit int

// A task comes once more if it was put off, failed or was moved.
const (
	First Visit = iota
	Second
	Later
)

// Take takes a slot for a task of the owner. A near one is the task's: it may run then. For a far one the task comes once more at that
// moment.
//
// Two lines make each task come three times at most, as long as none fails. Who comes first stands behind the first line. If all come at their
// slots, this is enough. If one does not find its slot free, since somebody has failed or the worker stood still, it stands behind the later
// line, and so do all that come after it. Who comes from there finds a slot.
func (t *OwnerSlots) Take(owner string, visit Visit, now time.Time) (slot time.Time, far bool) {
	o := t.of(owner, now)
	if visit < Later && now.Sub(o.next) > graceTime {
		o.first, o.later = time.Time{}, time.Time{} // their tasks were cancelled, or moved, or their workers stood still: these come again
	}
	end := &o.later
	if visit == First {
		end = &o.first
	}
	inLine := visit == First && o.first.After(now) || visit < Later && o.later.After(now)
	if idle := now.Sub(o.next) > unusedTime; (!inLine || idle) && !o.next.After(now.Add(maxWait)) {
		if now.Sub(o.next) > burst {
			o.free, o.taken, o.next = o.next, now, now
		}
		slot = latest(o.next, now)
		o.next = o.next.Add(t.step)
		return slot, false
	}
	slot = latest(*end, o.next)
	if visit == First {
		slot = latest(slot, o.later)
	}
	if slot.Sub(now) > farthest {
		return now.Add(farthest/2 + rand.N(farthest/2)), true //nolint:gosec // Spreads load, guards nothing.
	}
	*end = slot.Add(t.step)
	return slot, true
}

// Holds reports whether a near slot can still be used. One that was not used for as long as a queue's is lost, so that a worker that stood
// still does not make good for it at once.
func (t *OwnerSlots) Holds(slot, now time.Time) bool { return now.Sub(slot) <= max(minLife, t.step) }

// RefundFar takes back a far slot of a task that has come again, and waits for something else.
func (t *OwnerSlots) RefundFar(owner string) {
	if o := t.owners[owner]; o != nil {
		o.later = o.later.Add(-t.step)
	}
}

// Refund takes back a near slot whose task did not run. A far one of a task that came first needs none: a line whose slots nobody takes is
// over soon.
func (t *OwnerSlots) Refund(owner string) {
	o := t.owners[owner]
	if o == nil {
		return
	}
	if o.next = o.next.Add(-t.step); !o.next.After(o.taken) {
		o.next = o.free // nobody has run since: the slots are as free as before
	}
}

// of returns the owner's slots. Those that are beyond what can have been given were given before the database's clock was set back.
func (t *OwnerSlots) of(owner string, now time.Time) *line {
	o := t.owners[owner]
	if o == nil {
		t.forget(now)
		o = &line{}
		t.owners[owner] = o
	}
	if o.next.Sub(now) > maxWait+2*t.step {
		*o = line{}
	}
	return o
}

// forget forgets some owners whose slots are over, more than come: no call pays for many.
func (t *OwnerSlots) forget(now time.Time) {
	looked := 0
	for name, o := range t.owners {
		if !latest(o.next, latest(o.first, o.later)).After(now) {
			delete(t.owners, name)
		}
		if looked++; looked == 4 {
			return
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
