package recur

import (
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
	Skipped int       // passed ticks that get no task; of more than 10,000 passed ticks, 10,000 are counted
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
	passed, count := t.passed(after, p.lastBefore(now.Now))
	if oldest := p.oldestChosen(passed, now); oldest < len(passed) {
		return Plan{Tick: passed[oldest], Skipped: count - len(passed) + oldest, Last: passed[oldest]}
	}
	if count > 0 {
		after, plan.Skipped = passed[len(passed)-1], count
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

// oldestChosen returns the place of the oldest passed tick that gets a task, or len(passed). A tick that passed while the
// last task ran is Overlap's, any other CatchUp's.
func (p Policy) oldestChosen(passed []time.Time, now Progress) int {
	missed, overlapped := p.CatchUp.limit(), 0
	if p.Overlap == OverlapBufferOne {
		overlapped = 1
	}
	oldest := len(passed)
	for i, tick := range slices.Backward(passed) {
		limit := &missed
		switch {
		case p.Overlap != OverlapAllow && tick.After(now.Began) && !tick.After(now.Ended):
			limit = &overlapped
		case p.Window > 0 && tick.Before(now.Now.Add(-p.Window)):
			continue
		}
		if *limit > 0 {
			*limit--
			oldest = i
		}
	}
	return oldest
}

// passed returns the ticks later than after and not later than until, and their number. Of more than maxSkipped it
// returns the latest maxCatchUp or more, and the number maxSkipped.
func (t Timetable) passed(after, until time.Time) ([]time.Time, int) {
	ticks := t.between(after, until, maxSkipped)
	if len(ticks) < maxSkipped {
		return ticks, len(ticks)
	}
	for back := time.Hour; ; back *= 2 {
		if tail := t.between(later(after, until.Add(-back)), until, 0); len(tail) >= maxCatchUp {
			return tail, maxSkipped
		}
	}
}

// between returns the ticks later than after and not later than until: the first limit ones, or all if limit is 0.
func (t Timetable) between(after, until time.Time, limit int) []time.Time {
	var ticks []time.Time
	for limit == 0 || len(ticks) < limit {
		after = t.Next(after)
		if after.IsZero() || after.After(until) {
			break
		}
		ticks = append(ticks, after)
	}
	return ticks
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
