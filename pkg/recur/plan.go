package recur

import (
	"math/bits"
	"slices"
	"time"
)

// maxSkipped is how far skipped ticks are counted: a timetable that ticks each second passes 10,000 ticks in three
// hours.
const maxSkipped = 10_000

// Progress is how far a recurrence has come.
type Progress struct {
	Now  time.Time // the database's time
	Last time.Time // Plan.Last of the plan before; of a new recurrence, when it was made (zero = Now)
	Made int       // tasks made so far

	// Began and Ended are the first attempt and the end of the task that was made last; zero if not yet.
	Began, Ended time.Time
}

// Plan says what to do for a recurrence now.
type Plan struct {
	Tick    time.Time // make a task for it; zero: make none now
	Skipped int       // passed ticks that get no task; of more than 10,000, 10,000 are counted
	Last    time.Time // the latest tick of this plan, made or skipped: the next plan begins after it
	Over    bool      // there are no further ticks: nothing is made, now or later
}

// Plan says which tick of the timetable gets a task now. Of the passed ticks, CatchUp and Overlap choose. The oldest of
// the chosen ticks is made; the plans that follow choose among the later ones, as CatchUp says. If none is chosen, the
// next tick is made. While the last task runs, nothing is made, unless Overlap allows it.
//
// A plan never goes back before Progress.Last, so that no tick gets two tasks, even if the first one's row was purged.
func (p Policy) Plan(t Timetable, now Progress) Plan {
	plan := Plan{Last: now.Last}
	if !now.Began.IsZero() && now.Ended.IsZero() && p.Overlap != OverlapAllow {
		return plan
	}
	if p.Count > 0 && now.Made >= p.Count {
		plan.Over = true
		return plan
	}
	after := now.Last
	if after.IsZero() {
		after = now.Now
	}
	if start := p.Start.Add(-1); !p.Start.IsZero() && start.After(after) {
		after = start
	}
	until := p.lastBefore(now.Now)
	if tick := p.oldestChosen(t, after, until, now); !tick.IsZero() {
		return Plan{Tick: tick, Skipped: t.count(after, tick.Add(-1)), Last: tick}
	}
	if latest := t.latest(after, until, 1); len(latest) > 0 {
		plan.Skipped = t.count(after, until)
		after = latest[0]
	}
	next := t.Next(later(after, now.Now))
	if plan.Over = next.IsZero() || !p.End.IsZero() && !next.Before(p.End); !plan.Over {
		plan.Tick, after = next, next
	}
	plan.Last = later(plan.Last, after)
	return plan
}

// lastBefore returns the last moment at which a passed tick can lie.
func (p Policy) lastBefore(now time.Time) time.Time {
	if end := p.End.Add(-1); !p.End.IsZero() && end.Before(now) {
		return end
	}
	return now
}

// oldestChosen returns the oldest tick later than after, and not later than until, that gets a task, or the zero time. A tick that
// passed while the last task ran is Overlap's, any other CatchUp's. It looks at no more ticks than may get one.
func (p Policy) oldestChosen(t Timetable, after, until time.Time, now Progress) time.Time {
	missedAfter := after
	if p.Window > 0 {
		missedAfter = later(after, now.Now.Add(-p.Window-1))
	}
	if p.Overlap == OverlapAllow || now.Ended.IsZero() {
		return oldest(t.latest(missedAfter, until, p.CatchUp.limit()))
	}
	missed := t.latest(later(missedAfter, now.Ended), until, p.CatchUp.limit())
	before := t.latest(missedAfter, earlier(until, now.Began), p.CatchUp.limit()-len(missed))
	var overlapped []time.Time
	if p.Overlap == OverlapBufferOne {
		overlapped = t.latest(later(after, now.Began), earlier(until, now.Ended), 1)
	}
	return oldest(slices.Concat(before, overlapped, missed)) // in this order they passed
}

func oldest(ticks []time.Time) time.Time {
	if len(ticks) == 0 {
		return time.Time{}
	}
	return ticks[0]
}

// latest returns the latest n ticks, or fewer, later than after and not later than until.
func (t Timetable) latest(after, until time.Time, n int) []time.Time {
	if n <= 0 {
		return nil
	}
	for back := time.Minute; ; back *= 2 {
		begin := later(after, until.Add(-back))
		ticks := t.between(begin, until)
		if len(ticks) >= n || !begin.After(after) {
			return ticks[max(0, len(ticks)-n):]
		}
	}
}

// count returns the number of ticks later than after and not later than until, or maxSkipped if there are more.
func (t Timetable) count(after, until time.Time) int {
	n := 0
	for n < maxSkipped {
		tick := t.Next(after)
		if tick.IsZero() || tick.After(until) {
			return n
		}
		ticks, last := t.series(tick, until)
		n, after = n+ticks, last
	}
	return maxSkipped
}

// series returns how many ticks there are from the tick to a moment not later than until: those of a whole day, hour or minute if
// the tick is the first one of it and the clock does not change in it, otherwise the tick alone.
func (t Timetable) series(tick, until time.Time) (n int, last time.Time) {
	if t.zone == nil {
		return 1, tick
	}
	s := spanAt(tick, t.zone)
	wall := s.wall(tick)
	if wall.Before(s.shown) || tick.Equal(s.begin) { // a second pass, or perhaps what makes up for a gap
		return 1, tick
	}
	n, last = 1, tick
	first, ticks := time.Duration(0), 1
	for i, unit := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour} {
		values := t.fields[i] &^ star
		first += time.Duration(bits.TrailingZeros64(values)) * []time.Duration{time.Second, time.Minute, time.Hour}[i]
		ticks *= bits.OnesCount64(values)
		begin := wall.Truncate(unit)
		end := begin.Add(unit - s.offset)
		if !wall.Equal(begin.Add(first)) || end.After(until) || !s.end.IsZero() && end.After(s.end) {
			break
		}
		n, last = ticks, end.Add(-1)
	}
	return n, last
}

// between returns the ticks later than after and not later than until.
func (t Timetable) between(after, until time.Time) []time.Time {
	var ticks []time.Time
	for tick := t.Next(after); !tick.IsZero() && !tick.After(until); tick = t.Next(tick) {
		ticks = append(ticks, tick)
	}
	return ticks
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
