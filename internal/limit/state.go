package limit

import (
	"slices"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// State is what the workers of a queue share: its row.
type State struct {
	Queue       string
	Rate        *task.Rate // an operator's; nil: as configured
	OwnerRate   *task.Rate // an operator's; nil: as configured
	Concurrency *int       // an operator's; nil: as configured
	Version     int64      // of the row; 0: there is none yet
	Account     Account    // of the rate
	Holders     []Holder   // those that have permits, or want some
	LimitedAt   time.Time  // when a worker last told that due tasks wait for the limit
	Damaged     error      // why the row can't be read: then nothing else of it counts; nil: it can
}

// Limit returns the queue's limit, if it is configured so: what an operator has set comes first.
func (s State) Limit(configured task.Limit) task.Limit {
	if s.Rate != nil {
		configured.Rate = *s.Rate
	}
	if s.OwnerRate != nil {
		configured.OwnerRate = *s.OwnerRate
	}
	if s.Concurrency != nil {
		configured.Concurrency = *s.Concurrency
	}
	return configured
}

const (
	// limitedFor is how long a queue counts as limited after a worker told so. A worker that waits tells at least once a second.
	limitedFor = 5 * time.Second
	minReport  = time.Second // a state that says limited since less than this is not changed to say it again
)

// Limited reports whether due tasks of the queue wait for its limit.
func (s State) Limited(now time.Time) bool { return now.Sub(s.LimitedAt).Abs() < limitedFor }

// Same reports whether the workers share the same in both states.
func (s State) Same(other State) bool {
	return s.Account == other.Account && s.LimitedAt.Equal(other.LimitedAt) && slices.Equal(s.Holders, other.Holders)
}

// Ask is what a worker asks for.
type Ask struct {
	Limit   task.Limit // of the queue, as the worker knows it
	Holder  string     // the worker's name
	Members int        // workers of the queue, about
	Slots   bool       // it needs slots
	Lost    int        // slots that it could not use
	Wanted  int        // transactions that it could run now
	Running int        // transactions that it runs
	Refused bool       // due tasks wait for the limit
}

// Grant is what a worker gets.
type Grant struct {
	Slots   Lease
	SlotsAt time.Time // when to ask for slots again, and a little later; zero: when they are needed
	Permits int
	Until   time.Time // the permits end then, unless they are renewed
}

// Grant decides what a worker gets, and returns the state afterwards. Expired permits are dropped.
func (s State) Grant(a Ask, now time.Time) (State, Grant) {
	var g Grant
	if a.Refused && now.Sub(s.LimitedAt).Abs() >= minReport {
		s.LimitedAt = now
	}
	if a.Limit.Rate != (task.Rate{}) && a.Slots {
		s.Account.Owed = min(maxOwed, s.Account.Owed+a.Limit.Rate.Span(a.Lost))
		g.Slots, s.Account = Next(a.Limit.Rate, s.Account, now, a.Members)
		switch g.Slots.N {
		case 0:
			g.SlotsAt = s.Account.Leased.Add(-ahead)
		case 1: // lots are small: there may be more workers than slots, and whoever has just used one must not always ask first
			g.SlotsAt = g.Slots.From
		}
	}
	if a.Limit.Concurrency == 0 {
		s.Holders = nil
		return s, g
	}
	mine, others := Holder{Name: a.Holder, Since: now}, make([]Holder, 0, len(s.Holders)+1)
	for _, h := range s.Holders {
		h = h.bounded(now)
		switch {
		case h.Name == a.Holder:
			mine = h
		case h.Until.After(now):
			others = append(others, h)
		}
	}
	known := !mine.Until.Before(now)
	if !known {
		mine = Holder{Name: a.Holder, Since: now}
	}
	mine.Wanted = max(a.Wanted, a.Running)
	g.Permits, g.Until = Permits(a.Limit.Concurrency, mine, others, now), now.Add(PermitTTL)
	// A full row has no room for another worker: it asks again. So that all have their turn, one that has had permits leaves.
	if !known && len(others) >= maxHolders {
		s.Holders = others
		return s, Grant{Slots: g.Slots, SlotsAt: g.SlotsAt, Until: g.Until}
	}
	had := mine.Permits > 0
	mine.Permits, mine.Until = max(g.Permits, a.Running), g.Until
	if had != (mine.Permits > 0) {
		mine.Since = now
	}
	if yields := had && len(others) >= maxHolders-1; mine.Permits > 0 || mine.Wanted > 0 && !yields {
		others = append(others, mine)
	}
	s.Holders = others
	return s, g
}
