package main

import (
	"errors"
	"fmt"
	"time"
	_ "time/tzdata" // an image without zones must not keep an operator from naming one

	"github.com/duetime/duetime/internal/typed"
)

// stamp is the layout of shown times: RFC 3339 to the millisecond.
const stamp = "2006-01-02T15:04:05.000Z07:00"

// timeForms describes times in the help.
const timeForms = "2026-03-01T14:00:00+08:00, \"2026-03-01 14:00\", 2026-03-01, 14:00, +2h, -30m, +1d or now; where no zone is given, that of --tz"

// parseMoment reads a time. now is the operator's clock; its zone applies to times without one.
func parseMoment(text string, now time.Time, day typed.Day) (typed.Moment, error) {
	m, err := typed.Time(text, now, day)
	switch {
	case errors.Is(err, typed.ErrTime), errors.Is(err, typed.ErrSpan):
		return m, fmt.Errorf("%q is no time; write %s", text, timeForms)
	case errors.Is(err, typed.ErrGap):
		return m, fmt.Errorf("%q does not exist in %s, whose clocks are put forward then", text, now.Location())
	case err != nil:
		return m, fmt.Errorf("%q %w", text, err)
	}
	return m, nil
}

// parseSpan reads a span of time with days of 24 hours: 1d, -2d12h.
func parseSpan(text string) (time.Duration, error) {
	d, err := typed.Span(text)
	if err != nil {
		return 0, fmt.Errorf("%q %w; write 2h, -30m or 1d12h, of at most 100,000 days", text, err)
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
