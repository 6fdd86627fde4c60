package recur

import "time"

// maxOffsetChange is how far apart two offsets of a zone can lie: from UTC-12 to UTC+14.
const maxOffsetChange = 26 * time.Hour

// span is a stretch of time during which a zone's offset stays the same. Wall times are written as times in UTC.
type span struct {
	begin, end time.Time     // the zero time: without limit
	offset     time.Duration // from UTC
	before     time.Duration // the offset until begin
	shown      time.Time     // the wall time up to which the clock had gone before begin
}

func spanAt(t time.Time, zone *time.Location) span {
	s := span{begin: lastChange(t, zone), end: nextChange(t, zone), offset: offsetAt(t, zone)}
	if s.begin.IsZero() {
		return s
	}
	s.before = offsetAt(s.begin.Add(-1), zone)
	// An earlier span can have shown later wall times than the last one: a clock set back twice on one day.
	for end := s.begin; !end.IsZero() && s.begin.Sub(end) <= maxOffsetChange; {
		earlier := end.Add(-1)
		if w := end.Add(offsetAt(earlier, zone)); w.After(s.shown) {
			s.shown = w
		}
		end = lastChange(earlier, zone)
	}
	return s
}

// lastChange returns the latest change of the offset, t included, or the zero time. ZoneBounds can begin a zone too
// early: with the year, if its end comes from the rule for the years after the tz database's last entry.
func lastChange(t time.Time, zone *time.Location) time.Time {
	for {
		begin, _ := t.In(zone).ZoneBounds()
		if begin.IsZero() {
			return begin
		}
		before := begin.Add(-1)
		var last time.Time
		for change := nextChange(before, zone); !change.IsZero() && !change.After(t); change = nextChange(change, zone) {
			last = change
		}
		if !last.IsZero() {
			return last
		}
		t = before
	}
}

// nextChange returns the first change of the offset after t, or the zero time. ZoneBounds also ends zones where nothing
// changes: with each year, and in a leap year a day too early. On that last day it returns an end that lies before t.
func nextChange(t time.Time, zone *time.Location) time.Time {
	for {
		_, end := t.In(zone).ZoneBounds()
		if end.IsZero() {
			return end
		}
		if !end.After(t) {
			end = t.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
		}
		if offsetAt(t, zone) != offsetAt(end, zone) {
			return end.UTC()
		}
		t = end
	}
}

func offsetAt(t time.Time, zone *time.Location) time.Duration {
	_, seconds := t.In(zone).Zone()
	return time.Duration(seconds) * time.Second
}

// wall returns what the clock shows at t, a moment of the span.
func (s span) wall(t time.Time) time.Time { return t.UTC().Add(s.offset) }

// nextOnClock searches span by span.
func (t Timetable) nextOnClock(after time.Time) time.Time {
	s := spanAt(after, t.zone)
	from := s.wall(after)
	for {
		wall := t.nextIn(s, from)
		if wall.IsZero() {
			return time.Time{}
		}
		if tick := wall.Add(-s.offset); s.end.IsZero() || tick.Before(s.end) {
			return tick
		}
		s = spanAt(s.end, t.zone)
		if t.makesUp(s) {
			return s.begin
		}
		from = s.wall(s.begin).Add(-time.Second) // begin itself can be a tick
	}
}

// nextIn returns the first fitting wall time later than from that is no repetition, or may be one. It can lie beyond
// the span's end.
func (t Timetable) nextIn(s span, from time.Time) time.Time {
	wall := t.fields.nextFit(from)
	for !wall.IsZero() && wall.Before(s.shown) && !t.goesOn(wall, s.before-s.offset) {
		wall = t.fields.nextFit(wall)
	}
	return wall
}

// makesUp reports whether the span begins after a gap with a fitting wall time, so that its begin is a tick.
func (t Timetable) makesUp(s span) bool {
	gapEnd := s.wall(s.begin)
	wall := t.fields.nextFit(s.shown.Add(-time.Second))
	for !wall.IsZero() && wall.Before(gapEnd) && t.goesOn(wall, s.offset-s.before) {
		wall = t.fields.nextFit(wall)
	}
	return !wall.IsZero() && wall.Before(gapEnd)
}

// goesOn reports whether a timetable that names every hour fits the other wall time of the same instant, too: what the
// clock would show without its change, or shows by it.
func (t Timetable) goesOn(wall time.Time, change time.Duration) bool {
	return t.fields.everyHour() && t.fields.fits(wall.Add(change))
}
