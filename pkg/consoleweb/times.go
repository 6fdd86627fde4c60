package consoleweb

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/duetime/duetime/internal/typed"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

// errMistake is wrapped by errors about what a user typed.
var errMistake = errors.New("this can't be read")

// moment is a moment as pages show it.
type moment struct {
	ISO, UTC string // for programs, and for the title
	Text     string // in the user's zone
	Relative string
	Ms       int64 // Unix
}

const (
	utcForm   = "2006-01-02 15:04:05.000 UTC"
	localForm = "2006-01-02 15:04:05"
)

// At is a moment in Unix milliseconds for the template time.
func (v *visit) At(ms int64) moment {
	at := time.UnixMilli(ms)
	return moment{
		ISO: at.UTC().Format(time.RFC3339Nano), UTC: at.UTC().Format(utcForm), Text: at.In(v.zone).Format(localForm),
		Relative: v.relative(at.Sub(v.now)), Ms: ms,
	}
}

// Lately is a moment of the last day: without its date, if that is today's.
func (v *visit) Lately(ms int64) string {
	at := time.UnixMilli(ms).In(v.zone)
	if at.Format(time.DateOnly) == v.now.Format(time.DateOnly) {
		return at.Format("15:04")
	}
	return at.Format("01-02 15:04")
}

// Day is a moment to the second: without its date, if that is today's.
func (v *visit) Day(ms int64) clock { return v.clock(ms, v.now.Format(time.DateOnly)) }

// Clock is a moment without its day.
func (v *visit) Clock(ms int64) string { return time.UnixMilli(ms).In(v.zone).Format("15:04") }

// Typed is a moment as the forms read it.
func (v *visit) Typed(ms int64) string {
	return time.UnixMilli(ms).In(v.zone).Format("2006-01-02T15:04:05.000Z07:00")
}

func (v *visit) relative(d time.Duration) string {
	switch {
	case d.Abs() < time.Second:
		return v.T("now")
	case d < 0:
		return v.T("ago", v.short(-max(d, minSpan)))
	}
	return v.T("in", v.short(d))
}

// Ago is how long ago a moment is while the page is written, which may be seconds after it was asked for.
func (v *visit) Ago(ms int64) string { return v.relative(time.Until(time.UnixMilli(ms))) }

// Span is a duration in milliseconds, as people say it.
func (v *visit) Span(ms int64) string { return v.short(time.Duration(ms) * time.Millisecond) }

// Each is a duration behind "each" or "last": one of a unit is said without a number.
func (v *visit) Each(ms int64) string {
	for _, u := range units() {
		if u.size.Milliseconds() == ms {
			return v.T(u.key + ".one")
		}
	}
	return v.Span(ms)
}

// Ms is a duration in milliseconds, as Span says it, but of less than ten units with a tenth: a lag of 0.4 ms is not 0 ms.
func (v *visit) Ms(ms float64) string {
	d := time.Duration(max(-maxSpan, min(ms*float64(time.Millisecond), maxSpan)))
	switch size := d.Abs(); {
	case size >= 10*time.Second, size >= 10*time.Millisecond && size < time.Second:
		return v.short(d)
	case size >= time.Second:
		return fmt.Sprintf("%.1f %s", d.Seconds(), v.T("unit.s"))
	}
	return fmt.Sprintf("%.1f %s", ms, v.T("unit.ms"))
}

// Bounds of what is said of a span: rows of other programs may have any moment, and the difference of two may be the least duration, which
// has no opposite.
const (
	minSpan = -math.MaxInt64
	maxSpan = float64(1 << 62)
)

// unit is a length of time with a name.
type unit struct {
	size time.Duration
	key  string
}

func units() []unit {
	return []unit{
		{365 * 24 * time.Hour, "unit.y"}, {24 * time.Hour, "unit.d"}, {time.Hour, "unit.h"}, {time.Minute, "unit.min"}, {time.Second, "unit.s"},
	}
}

// NowMs is when the page is written: so its script knows the server's clock.
func (v *visit) NowMs() int64 { return time.Now().UnixMilli() }

// Spoken is what the page's script needs to say moments as relative does, as JSON.
func (v *visit) Spoken() (string, error) {
	type length struct {
		Ms   int64  `json:"ms"`
		Name string `json:"name"`
	}
	words := struct {
		Units []length `json:"units"`
		Now   string   `json:"now"`
		Ago   string   `json:"ago"`
		In    string   `json:"in"`
	}{Now: v.T("now"), Ago: v.T("ago"), In: v.T("in")}
	for _, u := range units() {
		words.Units = append(words.Units, length{u.size.Milliseconds(), v.T(u.key)})
	}
	text, err := json.Marshal(words)
	return string(text), err
}

// short is a duration in its largest unit, and the next one if there are few of the largest. The page's script does the same.
func (v *visit) short(d time.Duration) string {
	const parted = 10 // of a unit; below it, the next one is said too
	if d < 0 {
		return "-" + v.short(-max(d, minSpan))
	}
	all := units()
	for i, u := range all {
		n := d / u.size
		if n == 0 {
			continue
		}
		text := fmt.Sprintf("%d %s", n, v.T(u.key))
		if i+1 < len(all) && n < parted {
			if more := d % u.size / all[i+1].size; more > 0 {
				text += fmt.Sprintf(" %d %s", more, v.T(all[i+1].key))
			}
		}
		return text
	}
	return fmt.Sprintf("%d %s", d.Milliseconds(), v.T("unit.ms"))
}

// Late reports whether a task waits though it is due.
func (v *visit) Late(t console.Task) bool {
	return t.State == task.Pending && time.UnixMilli(t.RunAtMs).Before(v.now.Add(-v.c.Grace()))
}

var (
	utcText  = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	spanText = regexp.MustCompile(`(^|\bby )(-?(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?(?:ms|µs|s))\b`)
)

// Detail is the detail of a line of the history, or what an operation does: with moments in the user's zone, and durations as on
// the rest of the page.
func (v *visit) Detail(text string) string {
	text = spanText.ReplaceAllStringFunc(text, func(span string) string {
		parts := spanText.FindStringSubmatch(span)
		d, err := time.ParseDuration(parts[2])
		if err != nil {
			return span
		}
		return parts[1] + v.Ms(float64(d)/float64(time.Millisecond))
	})
	return cleaned(utcText.ReplaceAllStringFunc(text, func(moment string) string {
		at, err := time.Parse(time.RFC3339Nano, moment)
		if err != nil {
			return moment
		}
		return at.In(v.zone).Format(localForm)
	}))
}

// N groups the digits of a number.
func (v *visit) N(n any) string { return grouped(textOf(n)) }

// About is a number that may be an estimate: of one, two digits count.
func (v *visit) About(n int64, estimate bool) string {
	if !estimate || n == 0 {
		return v.N(n)
	}
	power := int64(1)
	for n/power >= 100 {
		power *= 10
	}
	return "≈ " + v.N((n+power/2)/power*power)
}

func grouped(digits string) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Clean replaces what a browser would hide or obey: control characters, and marks that change the direction of writing. A task
// of another program may be named by any bytes.
func (v *visit) Clean(text string) string { return cleaned(text) }

func cleaned(text string) string {
	const joiner = '\u200d' // keeps the parts of one emoji together
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t', r == joiner:
			return r
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			return '\ufffd'
		}
		return r
	}, strings.ToValidUTF8(text, "\ufffd"))
}

// parseBound reads a bound of a list as parseTyped reads a moment, but for a time of day, which is one of today.
func parseBound(text string, now time.Time) (time.Time, error) {
	return parseTime(text, now, typed.Today)
}

// parseTyped reads a moment as a user types it, in the user's zone unless it names one. A time of day is the next one.
func parseTyped(text string, now time.Time) (time.Time, error) {
	return parseTime(text, now, typed.Next)
}

func parseTime(text string, now time.Time, day typed.Day) (time.Time, error) {
	m, err := typed.Time(strings.TrimSpace(text), now, day)
	return m.On(now), mistyped(text, err)
}

func parseTypedSpan(text string) (time.Duration, error) {
	d, err := typed.Span(strings.TrimSpace(text))
	return d, mistyped(text, err)
}

func mistyped(text string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %q %w", errMistake, text, err)
}
