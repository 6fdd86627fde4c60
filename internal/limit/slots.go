package limit

import (
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// Constants of the rate. A rate is kept over any 10 s to within 5 %: what the workers hold in stock, and what they make good
// after a stall, is less than that.
const (
	catchUp  = 250 * time.Millisecond // slots that nobody leased are made good for this long
	quantum  = 250 * time.Millisecond // the workers' shares of one round
	prefetch = 100 * time.Millisecond // a worker leases what nobody else did up to here
	ahead    = 500 * time.Millisecond // slots after this are not leased yet
	maxStock = time.Second            // a slot that was not used for this long is lost
)

// Lease is some successive slots of a queue's rate, each of them one call of a handler.
type Lease struct {
	From time.Time // the first slot's moment, on the database's clock
	Rate task.Rate // the distance of the others; zero: all are at From
	N    int
}

func (l Lease) slot(i int) time.Time { return l.From.Add(l.Rate.Span(i)) }

// ready returns how many slots have come.
func (l Lease) ready(now time.Time) int {
	if l.From.After(now) || l.Rate == (task.Rate{}) && l.N == 0 {
		return 0
	}
	if l.Rate == (task.Rate{}) {
		return l.N
	}
	return min(l.N, l.Rate.In(now.Sub(l.From))+1)
}

// Next decides what a worker leases of a rate whose slots are leased up to a moment, and returns up to where they are then.
// Workers that ask in turn get equal lots, each for the slots after the one before; a worker that asks alone gets all. An empty
// lease means that slots are leased far enough ahead. A moment that is beyond what the rate can have leased is of another rate,
// or of a clock that was set back.
func Next(rate task.Rate, leased, now time.Time, members int) (Lease, time.Time) {
	from := leased
	if earliest := now.Add(-catchUp); from.Before(earliest) {
		from = earliest
	}
	if latest := now.Add(ahead + rate.Span(max(1, rate.In(quantum)))); from.After(latest) {
		from = latest
	}
	if from.After(now.Add(ahead)) {
		return Lease{}, from
	}
	n := max(Lot(rate, members), rate.In(now.Add(prefetch).Sub(from)))
	l := Lease{From: from, Rate: rate, N: n}
	return l, l.slot(n)
}

// Lot returns how many slots one of the members leases at once, while all of them ask.
func Lot(rate task.Rate, members int) int { return max(1, rate.In(quantum)/max(1, members)) }

// Slots are a worker's leases in the order of time. The zero value has none.
type Slots struct{ leases []Lease }

// Add adds a lease.
func (s *Slots) Add(l Lease) {
	if l.N > 0 {
		s.leases = append(s.leases, l)
	}
}

// Refund returns a slot that was taken without a call: it may be taken at once.
func (s *Slots) Refund(now time.Time) { s.leases = append([]Lease{{From: now, N: 1}}, s.leases...) }

// Len returns the number of slots that were not taken yet.
func (s *Slots) Len() (n int) {
	for _, l := range s.leases {
		n += l.N
	}
	return n
}

// Ready returns how many slots have come, and forgets those that came long ago.
func (s *Slots) Ready(now time.Time) (n int) {
	s.expire(now.Add(-maxStock))
	for _, l := range s.leases {
		n += l.ready(now)
	}
	return n
}

func (s *Slots) expire(before time.Time) {
	for len(s.leases) > 0 {
		l := &s.leases[0]
		lost := l.ready(before)
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
