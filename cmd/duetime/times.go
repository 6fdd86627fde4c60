package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // an image without zones must not keep an operator from naming one
)

// stamp is the layout of shown times: RFC 3339 to the millisecond.
const stamp = "2006-01-02T15:04:05.000Z07:00"

// timeForms describes times in the help.
const timeForms = "2026-03-01T14:00:00+08:00, \"2026-03-01 14:00\", 2026-03-01, 14:00, +2h, -30m, +1d or now; where no zone is given, that of --tz"

// moment is a time as an operator wrote it: fixed, or relative to now.
type moment struct {
	at   time.Time // zero if the time is relative
	from time.Duration
}

// on returns the moment, given the database's clock.
func (m moment) on(now time.Time) time.Time {
	if m.at.IsZero() {
		return now.Add(m.from)
	}
	return m.at
}

// clockDay is the day of a time that has only hours and minutes.
type clockDay int

const (
	today clockDay = iota
	next           // tomorrow if today's time is over, as at(1) does it
)

// fullForms and clockForms are layouts in the operator's zone; clockForms lack the date.
var fullForms, clockForms = []string{
	"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly,
}, []string{"15:04:05", "15:04"}

// errTime answers a text that can't be read as a time.
var errTime = errors.New("is no time; write " + timeForms)

// parseMoment reads a time. now is the operator's clock; its zone applies to times without one.
func parseMoment(text string, now time.Time, day clockDay) (moment, error) {
	if d, ok := fromNow(text); ok {
		return moment{from: d}, nil
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return moment{at: at}, checkYear(at, text)
	}
	for _, form := range fullForms {
		if at, err := time.ParseInLocation(form, text, now.Location()); err == nil {
			return existingMoment(at, form, text)
		}
	}
	for _, form := range clockForms {
		if _, err := time.Parse(form, text); err != nil {
			continue
		}
		return onDay(form, text, now, day)
	}
	return moment{}, fmt.Errorf("%q %w", text, errTime)
}

// onDay reads a time of today, or of tomorrow.
func onDay(form, text string, now time.Time, day clockDay) (moment, error) {
	form = time.DateOnly + " " + form
	for _, date := range []time.Time{now, now.AddDate(0, 0, 1)} {
		full := date.Format(time.DateOnly) + " " + text
		at, err := time.ParseInLocation(form, full, now.Location())
		if err != nil {
			return moment{}, fmt.Errorf("%q %w", text, errTime)
		}
		if day == today || at.After(now) {
			return existingMoment(at, form, full)
		}
	}
	return moment{}, fmt.Errorf("%q %w", text, errTime)
}

// existingMoment refuses a time that the zone's clocks skip when summer time begins. Of a time that the clocks show twice it
// takes the one that the standard library takes; the command's answer shows which.
func existingMoment(at time.Time, form, text string) (moment, error) {
	wall, err := time.Parse(form, text) // UTC skips no time
	if err != nil || wall.Format(time.DateTime) != at.Format(time.DateTime) {
		return moment{}, fmt.Errorf("%q does not exist in %s, whose clocks are put forward then", text, at.Location())
	}
	return moment{at: at}, checkYear(at, text)
}

// checkYear refuses moments before 1970. The first moment of the year 1 would be none: as a bound it would choose all tasks.
func checkYear(at time.Time, text string) error {
	if at.Year() < 1970 {
		return fmt.Errorf("%q is before 1970", text)
	}
	return nil
}

// fromNow reads a time relative to now: now, +2h, -30m, +1d.
func fromNow(text string) (time.Duration, bool) {
	if text == "now" {
		return 0, true
	}
	if !strings.HasPrefix(text, "+") && !strings.HasPrefix(text, "-") {
		return 0, false
	}
	d, err := parseSpan(text)
	return d, err == nil
}

// parseSpan is time.ParseDuration with days of 24 hours: 1d, -2d12h.
func parseSpan(text string) (time.Duration, error) {
	unsigned := strings.TrimLeft(text, "+-")
	number, hours, found := strings.Cut(unsigned, "d")
	if !found || len(text)-len(unsigned) > 1 {
		return time.ParseDuration(text)
	}
	const maxDays = 100_000 // of the whole: more than any task's limit, and too few for an overflow
	days, err := strconv.Atoi(number)
	if err != nil || days < 0 || days > maxDays || strings.HasPrefix(number, "+") {
		return 0, fmt.Errorf("%q is no duration", text)
	}
	d := time.Duration(days) * 24 * time.Hour
	if hours != "" {
		more, err := time.ParseDuration(hours)
		if err != nil || more < 0 || more > maxDays*24*time.Hour-d || hours[0] == '+' {
			return 0, fmt.Errorf("%q is no duration", text)
		}
		d += more
	}
	if text[0] == '-' {
		return -d, nil
	}
	return d, nil
}

// zone is the value of --tz.
type zone struct{ in *time.Location }

func (z *zone) String() string {
	if z.in == nil {
		return "Local"
	}
	return z.in.String()
}

// Set reads a name such as Asia/Shanghai, UTC or Local, or an offset such as +08:00.
func (z *zone) Set(name string) error {
	if offset, err := time.Parse("-07:00", name); err == nil {
		_, seconds := offset.Zone()
		z.in = time.FixedZone(name, seconds)
		return nil
	}
	in, err := time.LoadLocation(name)
	if err != nil || name == "" {
		return fmt.Errorf("%q is no time zone; write a name such as Asia/Shanghai, UTC or Local, or an offset such as +08:00", name)
	}
	z.in = in
	return nil
}

// Type names the flag's type in the help.
func (*zone) Type() string { return "zone" }

// location is the zone of times that are read and shown.
func (t *tool) location() *time.Location {
	if t.zone.in == nil {
		return time.Local //nolint:gosmopolitan // The operator's own.
	}
	return t.zone.in
}

// now is the operator's clock.
func (t *tool) now() time.Time { return time.Now().In(t.location()) }

// stamped shows a moment in Unix milliseconds.
func (t *tool) stamped(ms int64) string { return time.UnixMilli(ms).In(t.location()).Format(stamp) }
