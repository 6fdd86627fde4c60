package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // an image without zones must not keep an operator from naming one
)

// stamp is RFC 3339 to the millisecond.
const stamp = "2006-01-02T15:04:05.000Z07:00"

// timeForms is what the help says about times.
const timeForms = "2026-03-01T14:00:00+08:00, \"2026-03-01 14:00\", 2026-03-01, 14:00, +2h, -30m, +1d or now; where no zone is given, that of --tz"

// moment is a time as an operator wrote it: fixed, or counted from now.
type moment struct {
	at   time.Time // zero where it is counted
	from time.Duration
}

// on returns the moment where now is what the clock of the database says.
func (m moment) on(now time.Time) time.Time {
	if m.at.IsZero() {
		return now.Add(m.from)
	}
	return m.at
}

// clockDay says of which day a time is that names only hours and minutes.
type clockDay int

const (
	today clockDay = iota
	next           // tomorrow's where today's is over, as at(1) has it
)

// fullForms are read in the zone of the operator, dayForms also without their date.
var fullForms, clockForms = []string{
	"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly,
}, []string{"15:04:05", "15:04"}

// errTime answers a text that is no time.
var errTime = errors.New("is no time; write " + timeForms)

// parseMoment reads a time. now is that of the operator's clock, in the zone of times without one.
func parseMoment(text string, now time.Time, day clockDay) (moment, error) {
	if d, ok := fromNow(text); ok {
		return moment{from: d}, nil
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return moment{at: at}, nil
	}
	for _, form := range fullForms {
		if at, err := time.ParseInLocation(form, text, now.Location()); err == nil {
			return standing(at, form, text)
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

// onDay is a time of today, or of tomorrow.
func onDay(form, text string, now time.Time, day clockDay) (moment, error) {
	form = time.DateOnly + " " + form
	for _, date := range []time.Time{now, now.AddDate(0, 0, 1)} {
		full := date.Format(time.DateOnly) + " " + text
		at, err := time.ParseInLocation(form, full, now.Location())
		if err != nil {
			return moment{}, fmt.Errorf("%q %w", text, errTime)
		}
		if day == today || at.After(now) {
			return standing(at, form, full)
		}
	}
	return moment{}, fmt.Errorf("%q %w", text, errTime)
}

// standing refuses a time that the zone's clocks leave out when its summer begins. Of one that they show twice it takes what
// the standard library takes, and the answer of the command says which.
func standing(at time.Time, form, text string) (moment, error) {
	wall, err := time.Parse(form, text) // in UTC, which leaves nothing out
	if err != nil || wall.Format(time.DateTime) != at.Format(time.DateTime) {
		return moment{}, fmt.Errorf("%q does not exist in %s, whose clocks are put forward then", text, at.Location())
	}
	return moment{at: at}, nil
}

// fromNow reads a time that is counted from now: now, +2h, -30m, +1d.
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
	const maxDays = 100_000 // beyond every limit of a task, and far from an overflow
	days, err := strconv.Atoi(number)
	if err != nil || days < 0 || days > maxDays || strings.HasPrefix(number, "+") {
		return 0, fmt.Errorf("%q is no duration", text)
	}
	d := time.Duration(days) * 24 * time.Hour
	if hours != "" {
		more, err := time.ParseDuration(hours)
		if err != nil || more < 0 || hours[0] == '+' {
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

// Type is how the help names it.
func (*zone) Type() string { return "zone" }

// location is the zone in which times are read and shown.
func (t *tool) location() *time.Location {
	if t.zone.in == nil {
		return time.Local //nolint:gosmopolitan // The operator's own.
	}
	return t.zone.in
}

// now is the operator's.
func (t *tool) now() time.Time { return time.Now().In(t.location()) }

// stamped writes a moment in Unix milliseconds for people.
func (t *tool) stamped(ms int64) string { return time.UnixMilli(ms).In(t.location()).Format(stamp) }
