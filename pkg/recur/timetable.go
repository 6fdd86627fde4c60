package recur

import (
	"fmt"
	"strings"
	"time"
)

const (
	maxText  = 255                       // bytes of a timetable's text form: a column's size
	maxEvery = 10 * 365 * 24 * time.Hour // how far ahead a task may be due
)

// FieldError says which field of the input broke which limit.
type FieldError struct {
	Field   string // the field as the caller knows it: every, zone, cron, hour, …
	Problem string // the limit that it broke
}

// Error names the field and the limit.
func (e *FieldError) Error() string { return e.Field + " " + e.Problem }

// Timetable says when something recurs. Every, Cron and Parse make timetables; the zero Timetable has no ticks, nor has
// one that Check refuses. Timetables can be compared by ==, and are equal if their texts are.
type Timetable struct {
	text   string
	step   time.Duration // of Every
	anchor int64         // of Every, in Unix milliseconds
	fields fields        // of Cron
	zone   *time.Location
	err    error
}

// Every returns the timetable that ticks at the beginning of 1970 in UTC, and at each multiple of d after it; From gives
// it another anchor. Check refuses d below a second, above ten years, or no multiple of a millisecond.
func Every(d time.Duration) Timetable {
	if d < time.Second || d > maxEvery || d%time.Millisecond != 0 {
		return refused("every", "must be 1s to 10 years, in whole milliseconds")
	}
	return Timetable{step: d}.From(time.Unix(0, 0))
}

// From returns the timetable of Every that ticks at the anchor, cut to milliseconds, and at each multiple after it. Check
// refuses an anchor outside the years 1970 to 9999, and one for a timetable of Cron.
func (t Timetable) From(anchor time.Time) Timetable {
	if t.err != nil {
		return t
	}
	anchor = anchor.UTC().Truncate(time.Millisecond)
	if t.step == 0 || anchor.Before(time.Unix(0, 0)) || anchor.Year() > 9999 {
		return refused("anchor", "must lie in the years 1970 to 9999, and is for Every alone")
	}
	t.anchor, t.text = anchor.UnixMilli(), fmt.Sprintf("every %s from %s", t.step, anchor.Format(time.RFC3339Nano))
	return t
}

func refused(field, problem string) Timetable { return Timetable{err: &FieldError{field, problem}} }

// Check returns a FieldError that names the field, and the limit that it broke.
func (t Timetable) Check() error {
	if t.err == nil && t.text == "" {
		return &FieldError{"timetable", "must be made by Every, Cron or Parse"}
	}
	return t.err
}

// String returns the text form, at most 255 bytes, which Parse reads: "every 1h30m0s from 2026-01-01T00:00:00Z" or
// "cron Europe/Berlin 0 8 * * MON-FRI".
func (t Timetable) String() string { return t.text }

// Parse returns the timetable whose text form is s, and what Check says of it.
func Parse(s string) (Timetable, error) {
	form, body, _ := strings.Cut(s, " ")
	var t Timetable
	switch form {
	case "every":
		t = parseEvery(body)
	case "cron":
		zone, expr, _ := strings.Cut(body, " ")
		if t = Cron(expr, zone); t.err != nil && isExpression(body) {
			t = refused("timetable", withoutZone(body))
		}
	default:
		if t = refused("timetable", cronForm+"; or "+everyForm); isExpression(s) {
			t = refused("timetable", withoutZone(s))
		}
	}
	return t, t.err
}

// The forms that Parse reads.
const (
	cronForm  = `must read "cron ZONE EXPRESSION", such as "cron Asia/Shanghai 0 8 * * *"`
	everyForm = `must read "every DURATION from TIME", such as "every 4h from 2026-01-01T00:00:00Z"`
)

func isExpression(text string) bool {
	_, err := parseFields(text)
	return err == nil && len(text) <= maxText
}

// withoutZone says what is wrong with an expression of Cron in place of a timetable.
func withoutZone(expr string) string {
	return fmt.Sprintf("%s: did you mean \"cron UTC %s\"?", cronForm, expr)
}

func parseEvery(body string) Timetable {
	step, from, found := strings.Cut(body, " from ")
	if !found {
		return refused("timetable", everyForm)
	}
	d, err := time.ParseDuration(step)
	if err != nil {
		return refused("every", "must be a duration such as 1h30m")
	}
	anchor, err := time.Parse(time.RFC3339Nano, from)
	if err != nil {
		return refused("anchor", "must be a time such as 2026-01-01T00:00:00Z")
	}
	return Every(d).From(anchor)
}

// Next returns the first tick later than after, in UTC, or the zero time if there is none.
func (t Timetable) Next(after time.Time) time.Time {
	switch {
	case t.step > 0:
		return t.nextMultiple(after)
	case t.zone != nil:
		return t.nextOnClock(after)
	}
	return time.Time{}
}

// Ticks returns the first n ticks later than after, fewer if the timetable has no more.
func (t Timetable) Ticks(after time.Time, n int) []time.Time {
	var ticks []time.Time
	for len(ticks) < n {
		after = t.Next(after)
		if after.IsZero() {
			break
		}
		ticks = append(ticks, after)
	}
	return ticks
}

// nextMultiple counts in milliseconds: a Duration would overflow after 292 years.
func (t Timetable) nextMultiple(after time.Time) time.Time {
	step, passed := t.step.Milliseconds(), after.UnixMilli()-t.anchor
	if after.Before(time.UnixMilli(t.anchor)) {
		return time.UnixMilli(t.anchor).UTC()
	}
	return time.UnixMilli(t.anchor + (passed/step+1)*step).UTC()
}
