package limit

import (
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// Constants of the rate. A rate is kept over any 10 s to within 5 %: what the workers hold in stock, and what they make good
// after a stall, is less than that.
const (
	tardy    = 50 * time.Millisecond  // a lease may begin so long ago
	maxOwed  = time.Second            // slots that nobody leased are owed for this long
	faster   = 1.02                   // while slots are owed, they come at this multiple of the rate
	quantum  = 250 * time.Millisecond // the workers' shares of one round
	prefetch = 100 * time.Millisecond // a worker leases what nobody else did up to here
	ahead    = 500 * time.Millisecond // slots after this are not leased yet
	minLife  = 300 * time.Millisecond // a slot that was not used for this long, and until the next one came, is lost
)

// Lease is some successive slots of a queue's rate, each of them one call of a handler.
type Lease struct {
	From time.Time     // the first slot's moment, on the database's clock
	Step time.Duration // the distance of the others; 0: all are at From
	N    int
}

func (l Lease) slot(i int) time.Time { return l.From.Add(time.Duration(i) * l.Step) }

// ready returns how many slots have come.
func (l Lease) ready(now time.Time) int {
	switch {
	case l.From.After(now):
		return 0
	case l.Step == 0:
		return l.N
	}
	return min(l.N, int(now.Sub(l.From)/l.Step)+1)
}

// Next decides what a worker leases of a rate, and returns the state of the rate then. Workers that ask in turn get equal lots,
// each for the slots after the one before; a worker that asks alone gets all. An empty lease means that slots are leased far
// enough ahead. Slots that nobody leased in their time, as in a stall, are made good by shorter steps. A moment that is beyond
// what the rate can have leased is of another rate, or of a clock that was set back.
func Next(rate task.Rate, a Account, now time.Time, members int) (Lease, Account) {
	if earliest := now.Add(-tardy); a.Leased.Before(earliest) {
		a.Owed = min(maxOwed, a.Owed+min(maxOwed, earliest.Sub(a.Leased)))
		a.Leased = earliest
	}
	if latest := now.Add(ahead + rate.Span(max(1, rate.In(quantum)))); a.Leased.After(latest) {
		a.Leased = latest
	}
	if a.Leased.After(now.Add(ahead)) {
		return Lease{}, a
	}
	step := rate.Span(1)
	n := max(Lot(rate, members), rate.In(now.Add(prefetch).Sub(a.Leased)))
	if made := time.Duration(n) * (step - shorter(step)); a.Owed >= made && a.Owed > 0 {
		step, a.Owed = shorter(step), a.Owed-made
	}
	l := Lease{From: a.Leased, Step: step, N: n}
	a.Leased = l.slot(n)
	return l, a
}

func shorter(step time.Duration) time.Duration { return time.Duration(float64(step) / faster) }

// Account says how far a rate is leased.
type Account struct {
	Leased time.Time     // slots up to this moment are leased
	Owed   time.Duration // the time of slots that nobody has leased, and that are still to be made good
}

// Lot returns how many slots one of the members leases at once, while all of them ask.
func Lot(rate task.Rate, members int) int { return max(1, rate.In(quantum)/max(1, members)) }

// Slots are a worker's leases in the order of time. The zero value has none.
type Slots struct {
	leases []Lease
	step   time.Duration // of the last lease
	lost   int           // slots that no call has used in their time
}

// Add adds a lease.
func (s *Slots) Add(l Lease) {
	if l.N > 0 {
		s.leases, s.step = append(s.leases, l), l.Step
	}
}

// life is how long a slot can be used. One of a low rate waits for the next one, so that a stall, or a hint that needed no call,
// does not cost a call.
func (s *Slots) life() time.Duration { return max(minLife, s.step) }

// Refund returns a slot that was taken without a call: it may be taken at once, or is lost if it came long ago.
func (s *Slots) Refund(slot, now time.Time) {
	if now.Sub(slot) > s.life() {
		s.lost++
		return
	}
	s.leases = append([]Lease{{From: slot, N: 1}}, s.leases...)
}

// Lost returns how many slots were lost since the last call: others are to make them good.
func (s *Slots) Lost() int {
	n := s.lost
	s.lost = 0
	return n
}

// Len returns the number of slots that were not taken yet.
func (s *Slots) Len() (n int) {
	for _, l := range s.leases {
		n += l.N
	}
	return n
}

// Ready returns how many slots have come, and forgets those that came long ago. It forgets all if the first one is farther ahead than
// slots are leased: the clock was set back since.
func (s *Slots) Ready(now time.Time) (n int) {
	s.expire(now.Add(-s.life()))
	if first, ok := s.First(); ok && first.After(now.Add(2*ahead)) {
		s.leases = nil
	}
	for _, l := range s.leases {
		n += l.ready(now)
	}
	return n
}

func (s *Slots) expire(before time.Time) {
	for len(s.leases) > 0 {
		l := &s.leases[0]
		lost := l.ready(before)
		s.lost += lost
		l.From, l.N = l.slot(lost), l.N-lost
		if l.N > 0 {
			return
		}
		s.leases = s.leases[1:]
	}
}

// Take takes the first slot, and returns its moment. There must be one.
func (s *Slots) Take() time.Time {
	l := &s.leases[0]
	at := l.From
	l.From, l.N = l.slot(1), l.N-1
	if l.N == 0 {
		s.leases = s.leases[1:]
	}
	return at
}

// First returns the moment of the first slot; false if there is none.
func (s *Slots) First() (time.Time, bool) {
	if len(s.leases) == 0 {
		return time.Time{}, false
	}
	return s.leases[0].From, true
}
