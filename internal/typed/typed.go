// Package typed reads moments and spans of time as people type them, for the tool and for the console's page.
package typed

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

var (
	// ErrTime says that a text is no time.
	ErrTime = errors.New("is no time")
	// ErrSpan says that a text is no span of time.
	ErrSpan = errors.New("is no span of time")
	// ErrGap says that the zone's clocks skip the time when they are put forward.
	ErrGap = errors.New("does not exist: the clocks are put forward then")
	// ErrEarly answers moments before 1970. The first one of the year 1 would be none: as a bound it would choose all tasks.
	ErrEarly = errors.New("is before 1970")
)

// Day is the day of a time that has only hours and minutes.
type Day int

// The days.
const (
	Today Day = iota
	Next      // tomorrow if today's time is over, as at(1) does it
)

// Moment is a time as somebody typed it: fixed, or relative to now.
type Moment struct {
	At   time.Time // zero if the time is relative
	From time.Duration
}

// On returns the moment as it is when now is.
func (m Moment) On(now time.Time) time.Time {
	if m.At.IsZero() {
		return now.Add(m.From)
	}
	return m.At
}

// Time reads now, +2h, -30m, +1d, a time of day, a date, or both. now is the user's clock; its zone is that of a text without one. Of a time
// that the clocks show twice it takes the one that the standard library takes. It answers ErrTime, ErrSpan, ErrGap or ErrEarly.
func Time(text string, now time.Time, day Day) (Moment, error) {
	if text == "now" {
		return Moment{}, nil
	}
	if strings.HasPrefix(text, "+") || strings.HasPrefix(text, "-") {
		d, err := Span(text)
		return Moment{From: d}, err
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return existing(at, time.RFC3339Nano, text)
	}
	for _, form := range []string{
		"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly,
	} {
		if at, err := time.ParseInLocation(form, text, now.Location()); err == nil {
			return existing(at, form, text)
		}
	}
	for _, form := range []string{time.TimeOnly, "15:04"} {
		if _, err := time.Parse(form, text); err == nil {
			return ofDay(form, text, now, day)
		}
	}
	return Moment{}, ErrTime
}

func ofDay(form, text string, now time.Time, day Day) (Moment, error) {
	form = time.DateOnly + " " + form
	for _, date := range []time.Time{now, now.AddDate(0, 0, 1)} {
		full := date.Format(time.DateOnly) + " " + text
		at, err := time.ParseInLocation(form, full, now.Location())
		if err == nil && (day == Today || at.After(now)) {
			return existing(at, form, full)
		}
	}
	return Moment{}, ErrTime
}

func existing(at time.Time, form, text string) (Moment, error) {
	wall, err := time.Parse(form, text) // UTC skips no time
	switch {
	case err != nil || wall.Format(time.DateTime) != at.Format(time.DateTime):
		return Moment{}, ErrGap
	case at.Year() < 1970:
		return Moment{}, ErrEarly
	}
	return Moment{At: at}, nil
}

// maxSpan is more than any task's limit, and too little for an overflow.
const maxSpan = 100_000 * 24 * time.Hour

// Span is time.ParseDuration with days of 24 hours: 1d, -2d12h. It answers ErrSpan.
func Span(text string) (d time.Duration, err error) {
	unsigned := strings.TrimLeft(text, "+-")
	if len(text)-len(unsigned) > 1 || unsigned == "" {
		return 0, ErrSpan
	}
	number, hours, days := strings.Cut(unsigned, "d")
	if days {
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil || n > uint64(maxSpan/(24*time.Hour)) {
			return 0, ErrSpan
		}
		d = time.Duration(n) * 24 * time.Hour
	} else {
		hours = unsigned
	}
	if hours != "" {
		more, err := time.ParseDuration(hours)
		if err != nil || more < 0 || hours[0] == '+' || more > maxSpan-d {
			return 0, ErrSpan
		}
		d += more
	}
	if text[0] == '-' {
		return -d, nil
	}
	return d, nil
}
