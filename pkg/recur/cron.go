package recur

import (
	"fmt"
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

// fields are the values of the six fields that an expression names, as go-cron's sets of bits.
type fields [6]uint64

const hour = 2 // index in fields

// fieldRanges names the fields in their order, with the values that they allow.
var fieldRanges = [len(fields{})]struct{ name, values string }{
	{"second", "0 to 59"},
	{"minute", "0 to 59"},
	{"hour", "0 to 23"},
	{"day of month", "1 to 31"},
	{"month", "1 to 12 or JAN to DEC"},
	{"day of week", "0 to 7 or SUN to SAT"},
}

var (
	fieldPattern = regexp.MustCompile(`^[0-9A-Za-z*?,/-]+$`)
	parser       = cron.MustNewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
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
		Second: f[0], Minute: f[1], Hour: f[2], Dom: f[3], Month: f[4], Dow: f[5],
		Location: time.UTC, MaxSearchYears: searchYears, DowOrDom: true,
	}
	return s.Next(after)
}

func (f fields) fits(wall time.Time) bool { return f.nextFit(wall.Add(-time.Second)).Equal(wall) }

func (f fields) everyHour() bool { return f[hour]&everyHour == everyHour }
