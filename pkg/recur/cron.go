package recur

import (
	"fmt"
	"math/bits"
	"regexp"
	"strings"
	"time"

	"github.com/netresearch/go-cron"
)

const (
	searchYears = 9 // from 29 February 2096 to that of 2104 is longest
	everyHour   = 1<<24 - 1
	star        = 1 << 63 // go-cron's mark of a day field that is not restricted
)

// fields are the values of the six fields that an expression names, as go-cron's sets of bits. Days that depend on the month have bits
// that go-cron doesn't use.
type fields [6]uint64

// Indexes in fields.
const (
	hour       = 2
	dayOfMonth = 3
	month      = 4
	dayOfWeek  = 5
)

// Bits of days that depend on the month. The n-th of a weekday has the bit 8n + weekday.
const (
	lastDay     = 1 << 32
	lastWeekday = 1 << 33
	days        = 1<<32 - 1 // of go-cron, of both day fields
	weekdays    = 1<<7 - 1
	nthWeekdays = 1<<(8*5+7) - 1<<8
)

// fieldRanges names the fields in their order, with the values that they allow.
var fieldRanges = [len(fields{})]struct{ name, values string }{
	{"second", "0 to 59"},
	{"minute", "0 to 59"},
	{"hour", "0 to 23"},
	{"day of month", "1 to 31, L (the last day) or LW (the last Monday to Friday)"},
	{"month", "1 to 12 or JAN to DEC"},
	{"day of week", "0 to 7 or SUN to SAT, or the first to fifth of one in the month, such as 5#2 or FRI#2"},
}

var (
	fieldPattern = regexp.MustCompile(`^[0-9A-Za-z*?,/#-]+$`)
	parser       = cron.MustNewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow |
		cron.DomL | cron.DomW | cron.DowNth)
)

// Cron returns the timetable that ticks when the clock of the zone shows a time that fits the expression; the package
// comment says which expressions there are, and what happens when the clock changes. The zone is a name of the tz
// database, such as Europe/Berlin or UTC. Check returns a FieldError that names the field, and the limit that it broke.
func Cron(expr, zone string) Timetable {
	location, err := loadZone(zone)
	if err != nil {
		return Timetable{err: err}
	}
	expr = strings.Join(strings.Fields(expr), " ")
	text := "cron " + zone + " " + expr
	if len(text) > maxText {
		return refused("cron", fmt.Sprintf("must be at most %d bytes in this zone", len(expr)-len(text)+maxText))
	}
	set, err := parseFields(expr)
	if err != nil {
		return Timetable{err: err}
	}
	return Timetable{text: text, fields: set, zone: location}
}

// parseFields parses each field by itself, so that an error names its field.
func parseFields(expr string) (fields, error) {
	texts := strings.Fields(expr)
	if strings.HasPrefix(expr, "@") {
		texts = strings.Fields(shorthand(expr))
	}
	if len(texts) == len(fields{})-1 {
		texts = append([]string{"0"}, texts...)
	}
	var set fields
	if len(texts) != len(set) {
		return set, &FieldError{"cron", "must have five fields (minute, hour, day of month, month, day of week), " +
			"or six with the second first, or be @hourly, @daily, @weekly, @monthly or @yearly"}
	}
	for i, text := range texts {
		values, err := parseField(i, text)
		if err != nil {
			return fields{}, &FieldError{
				fieldRanges[i].name,
				fmt.Sprintf("must be of %s, or *, with lists, ranges and steps: %v", fieldRanges[i].values, err),
			}
		}
		set[i] = values
	}
	return set, nil
}

func shorthand(expr string) string {
	switch expr {
	case "@hourly":
		return "0 * * * *"
	case "@daily":
		return "0 0 * * *"
	case "@weekly":
		return "0 0 * * 0"
	case "@monthly":
		return "0 0 1 * *"
	case "@yearly":
		return "0 0 1 1 *"
	}
	return ""
}

// parseField refuses empty list items, which go-cron drops: a field without any value would have it search all seconds
// of nine years.
func parseField(i int, text string) (uint64, error) {
	if !fieldPattern.MatchString(text) || strings.Contains(","+text+",", ",,") {
		return 0, fmt.Errorf("%q", text)
	}
	texts := []string{"*", "*", "*", "*", "*", "*"}
	texts[i] = text
	parsed, err := parser.Parse(strings.Join(texts, " "))
	if err != nil {
		return 0, err
	}
	s, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return 0, fmt.Errorf("%q", text)
	}
	for _, c := range s.DomConstraints {
		switch c.Type {
		case cron.DomLast:
			s.Dom |= lastDay
		case cron.DomLastWeekday:
			s.Dom |= lastWeekday
		default: // L-3 and 15W
			return 0, fmt.Errorf("%q", text)
		}
	}
	for _, c := range s.DowConstraints {
		s.Dow |= 1 << (8*c.N + c.Weekday)
	}
	values := fields{s.Second, s.Minute, s.Hour, s.Dom, s.Month, s.Dow}[i]
	if values&^star == 0 {
		return 0, fmt.Errorf("%q names no value", text)
	}
	return values, nil
}

// nextFit returns the first wall time later than after that fits the fields, on a clock that never changes: both are
// written as times in UTC. It returns the zero time if there is none.
func (f fields) nextFit(after time.Time) time.Time {
	s := cron.SpecSchedule{
		Second: f[0], Minute: f[1], Hour: f[2], Dom: f[dayOfMonth] & (days | star), Month: f[month], Dow: f[dayOfWeek] & (weekdays | star),
		Location: time.UTC, MaxSearchYears: searchYears, DowOrDom: true,
	}
	if f[dayOfMonth]&lastDay != 0 {
		s.DomConstraints = append(s.DomConstraints, cron.DomConstraint{Type: cron.DomLast})
	}
	if f[dayOfMonth]&lastWeekday != 0 {
		s.DomConstraints = append(s.DomConstraints, cron.DomConstraint{Type: cron.DomLastWeekday})
	}
	for left := f[dayOfWeek] & nthWeekdays; left != 0; left &= left - 1 {
		bit := bits.TrailingZeros64(left)
		s.DowConstraints = append(s.DowConstraints, cron.DowConstraint{Weekday: bit % 8, N: bit / 8})
	}
	return s.Next(after)
}

// ShortMonths returns the months of a timetable of Cron that have no tick because they are too short for its days: for the day 31 these
// are February, April, June, September and November. February is among them for the day 29, which it has in leap years alone. The day L
// is in each month.
func (t Timetable) ShortMonths() []time.Month {
	onDays := t.fields[dayOfMonth]
	if t.zone == nil || onDays&(star|lastDay|lastWeekday) != 0 || t.fields[dayOfWeek]&star == 0 {
		return nil
	}
	var short []time.Month
	for m := time.January; m <= time.December; m++ {
		if last := time.Date(2026, m+1, 0, 0, 0, 0, 0, time.UTC).Day(); t.fields[month]&(1<<m) != 0 && bits.TrailingZeros64(onDays) > last {
			short = append(short, m)
		}
	}
	return short
}

func (f fields) fits(wall time.Time) bool { return f.nextFit(wall.Add(-time.Second)).Equal(wall) }

func (f fields) everyHour() bool { return f[hour]&everyHour == everyHour }
