package recur_test

import (
	"archive/zip"
	"io/fs"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/pkg/recur"
)

// expressions are searched minute by minute. Zones and changes of the clock take samples of them in a fixed order.
var expressions = []string{
	"* * * * *", "*/10 * * * *", "*/7 * * * *", "0 * * * *", "30 * * * *", "15 * * * *", "45 * * * *", "5-55/10 * * * *",
	"@hourly", "@daily", "@weekly", "@monthly", "@yearly", "0 0 * * *", "30 0 * * *", "59 23 * * *", "30 23 * * *",
	"0 1 * * *", "30 1 * * *", "0 2 * * *", "15 2 * * *", "30 2 * * *", "45 2 * * *", "0 3 * * *", "30 3 * * *",
	"*/5 2 * * *", "*/15 1-3 * * *", "0 */2 * * *", "30 1-23/2 * * *", "30 1,2,3 * * *", "0 22-2 * * *", "10 0-23 * * *",
	"30 2 * * SUN", "0 0 * * FRI", "30 1 1-7 * 0", "0 0 1 * *", "30 2 31 * *", "*/20 * * * SAT,SUN", "30 * 28-31 * *",
	"0 2 29 2 *", "15 0-12 * MAR,APR,OCT,NOV 7", "0 9 * * MON-FRI", "*/30 0-5 * 3-11 *",
}

// exactExpressions are searched second by second, close to changes.
var exactExpressions = []string{
	"* * * * * *", "*/10 * * * * *", "30 * * * * *", "30 59 * * * *", "59 59 23 * * *", "1 0 * * * *", "15 0 2 * * *",
	"0,30 0,59 0-3 * * *",
}

// TestClockChanges compares timetables with a search that tries each instant, for every zone of the tz database: around each
// change of its clock in twenty years, and on two other days. It samples the expressions: two for each change, which
// are others in each zone and at each change.
func TestClockChanges(t *testing.T) {
	t.Parallel()
	seen, changes := map[string]bool{}, 0
	for number, z := range zones(t) {
		if seen[z.data] {
			continue // another name of a zone
		}
		seen[z.data] = true
		location, err := time.LoadLocationFromTZData(z.name, []byte(z.data))
		if err != nil {
			t.Fatal(err)
		}
		moments := changesOf(location, date(2010), date(2030))
		changes += len(moments)
		t.Run(z.name, func(t *testing.T) {
			t.Parallel()
			next := 5 * number
			sample := func(of []string) string {
				next++
				return of[next%len(of)]
			}
			for i, change := range moments {
				c := readClock(location, change.Add(-2*time.Hour), change.Add(3*time.Hour), time.Minute)
				for range 2 {
					c.compare(t, sample(expressions))
				}
				if i%4 == 0 {
					c = readClock(location, change.Add(-time.Minute), change.Add(time.Minute), time.Second)
					c.compare(t, sample(exactExpressions))
				}
			}
			for _, day := range []time.Time{date(2027).AddDate(0, 0, number%365), date(2018).AddDate(0, 0, 3*number%365)} {
				readClock(location, day, day.AddDate(0, 0, 1), time.Minute).compare(t, sample(expressions))
			}
		})
	}
	if len(seen) < 300 || changes < 5000 {
		t.Errorf("only %d zones with %d changes were tried", len(seen), changes)
	}
}

func TestNamedClockChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, expr, zone, after string
		want                    []string
	}{
		{"gap", "30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", []string{"2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"}},
		{"gap, several in it", "*/15 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", []string{"2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"}},
		{"gap, its end fits too", "0 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", []string{"2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"}},
		{"gap, each hour", "30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", []string{"2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z"}},
		{"fold", "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", []string{"2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"}},
		{"fold, from inside", "30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", []string{"2026-10-26T01:30:00Z"}},
		{"fold, range of hours", "0 1-3 * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", []string{"2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z"}},
		{"fold, each hour", "0 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", []string{"2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"}},
		{"fold, ten minutes", "*/10 * * * *", "America/New_York", "2026-11-01T05:45:00Z", []string{"2026-11-01T05:50:00Z", "2026-11-01T06:00:00Z", "2026-11-01T06:10:00Z"}},
		{"last day of a leap year", "0 12 * * *", "Europe/Berlin", "2040-12-30T12:00:00Z", []string{"2040-12-31T11:00:00Z", "2041-01-01T11:00:00Z"}},
		{"last evening of a leap year", "0 12 * * *", "America/New_York", "2040-12-31T20:00:00Z", []string{"2041-01-01T17:00:00Z"}},

		{"Lord Howe, gap of half an hour", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", []string{"2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"}},
		{"Lord Howe, gap, ten minutes", "*/10 * * * *", "Australia/Lord_Howe", "2026-10-03T15:15:00Z", []string{"2026-10-03T15:20:00Z", "2026-10-03T15:30:00Z", "2026-10-03T15:40:00Z"}},
		{"Lord Howe, gap, each hour", "15 * * * *", "Australia/Lord_Howe", "2026-10-03T14:00:00Z", []string{"2026-10-03T14:45:00Z", "2026-10-03T15:30:00Z", "2026-10-03T16:15:00Z"}},
		{"Lord Howe, fold of half an hour", "45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", []string{"2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"}},
		{"Lord Howe, fold, ten minutes", "*/10 * * * *", "Australia/Lord_Howe", "2026-04-04T14:45:00Z", []string{"2026-04-04T14:50:00Z", "2026-04-04T15:00:00Z", "2026-04-04T15:10:00Z"}},
		{"Lord Howe, fold, each hour", "45 * * * *", "Australia/Lord_Howe", "2026-04-04T14:00:00Z", []string{"2026-04-04T14:45:00Z", "2026-04-04T16:15:00Z"}},

		{"Cairo, gap at midnight", "@daily", "Africa/Cairo", "2026-04-23T12:00:00Z", []string{"2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z"}},
		{"Cairo, fold before midnight", "30 23 * * *", "Africa/Cairo", "2026-10-29T12:00:00Z", []string{"2026-10-29T20:30:00Z", "2026-10-30T21:30:00Z"}},
		{"São Paulo, gap at midnight", "0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00Z", []string{"2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"}},
		{"São Paulo, gap after midnight", "*/15 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00Z", []string{"2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"}},
		{"São Paulo, day of the gap", "0 0 4 11 *", "America/Sao_Paulo", "2018-11-03T12:00:00Z", []string{"2018-11-04T03:00:00Z", "2019-11-04T03:00:00Z"}},

		{"Samoa, missing day", "0 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z", []string{"2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"}},
		{"Samoa, missing date", "0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", []string{"2011-12-30T10:00:00Z", "2012-12-29T22:00:00Z"}},
		{"Samoa, each hour", "@hourly", "Pacific/Apia", "2011-12-30T08:30:00Z", []string{"2011-12-30T09:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T11:00:00Z"}},
		{"Samoa, each hour of the missing date", "30 * 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", []string{"2011-12-30T10:00:00Z", "2012-12-29T10:30:00Z"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			timetable := valid(recur.Cron(c.expr, c.zone))
			var got []string
			for _, tick := range timetable.Ticks(at(c.after), len(c.want)) {
				got = append(got, tick.Format(time.RFC3339))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: got %v, want %v", timetable, got, c.want)
			}
		})
	}
}

// clock is what a zone's clock shows, instant by instant.
type clock struct {
	zone     *time.Location
	step     time.Duration
	from     time.Time // the readings begin a day earlier, because a clock can have been set back
	readings []reading
}

type reading struct {
	at     time.Time
	wall   time.Time     // written as a time in UTC
	shown  time.Time     // the end of the latest wall time of an earlier reading
	change time.Duration // the offset less the one before the last change
}

func readClock(zone *time.Location, from, until time.Time, step time.Duration) clock {
	c := clock{zone: zone, step: step, from: from}
	var last, offset int
	var change time.Duration
	var shown time.Time
	width := 15 * time.Minute // of a reading before from
	for at := from.Add(-27 * time.Hour); !at.After(until); at = at.Add(width) {
		if !at.Before(from) {
			width = step
		}
		_, offset = at.In(zone).Zone()
		if shown.IsZero() {
			last = offset
		}
		if offset != last {
			change, last = time.Duration(offset-last)*time.Second, offset
		}
		wall := at.Add(time.Duration(offset) * time.Second)
		c.readings = append(c.readings, reading{at, wall, shown, change})
		if end := wall.Add(width); end.After(shown) {
			shown = end
		}
	}
	return c
}

// compare holds the timetable's ticks to those that trying each reading finds.
func (c clock) compare(t *testing.T, expr string) {
	t.Helper()
	var want, got []time.Time
	e := understand(t, expr)
	for i, r := range c.readings {
		if i > 0 && !r.at.Before(c.from) && e.ticks(r, c.step) {
			want = append(want, r.at)
		}
	}
	timetable := valid(recur.Cron(expr, c.zone.String()))
	until := c.readings[len(c.readings)-1].at
	for tick := timetable.Next(c.from.Add(-1)); !tick.IsZero() && !tick.After(until); tick = timetable.Next(tick) {
		got = append(got, tick)
		if len(got) > 1 && !tick.After(got[len(got)-2]) {
			t.Fatalf("%s: %v does not increase", timetable, got)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s, from %v: got %v, want %v", timetable, c.from, got, want)
	}
}

// expression is a second reading of the same text, apart from the parser.
type expression struct {
	values             [6]map[int]bool
	anyDay, anyWeekday bool
	interval           bool // each hour of the day
}

func understand(t *testing.T, expr string) expression {
	t.Helper()
	if long, found := map[string]string{
		"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *",
	}[expr]; found {
		expr = long
	}
	texts := strings.Fields(expr)
	if len(texts) == 5 {
		texts = append([]string{"0"}, texts...)
	}
	var e expression
	low, high := []int{0, 0, 0, 1, 1, 0}, []int{59, 59, 23, 31, 12, 7}
	for i, text := range texts {
		e.values[i] = map[int]bool{}
		for item := range strings.SplitSeq(text, ",") {
			span, step, stepped := strings.Cut(item, "/")
			first, last, ranged := strings.Cut(span, "-")
			a, b := low[i], high[i]
			if span != "*" {
				a = value(t, first)
				if b = a; ranged {
					b = value(t, last)
				}
			}
			by := 1
			if stepped {
				by = value(t, step)
			}
			if b < a {
				b += high[i] - low[i] + 1
			}
			for v := a; v <= b; v += by {
				e.values[i][(v-low[i])%(high[i]-low[i]+1)+low[i]] = true
			}
		}
	}
	e.values[5][0] = e.values[5][0] || e.values[5][7]
	e.anyDay, e.anyWeekday = texts[3] == "*", texts[5] == "*"
	e.interval = len(e.values[2]) == 24
	return e
}

func value(t *testing.T, text string) int {
	t.Helper()
	for i, name := range strings.Fields("SUN MON TUE WED THU FRI SAT") {
		if text == name {
			return i
		}
	}
	for i, name := range strings.Fields("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC") {
		if text == name {
			return i + 1
		}
	}
	return must(strconv.Atoi(text))
}

func (e expression) fits(wall time.Time) bool {
	day, weekday := e.values[3][wall.Day()], e.values[5][int(wall.Weekday())]
	fitting := day || weekday
	if e.anyDay || e.anyWeekday {
		fitting = day && weekday
	}
	return fitting && e.values[0][wall.Second()] && e.values[1][wall.Minute()] && e.values[2][wall.Hour()] && e.values[4][int(wall.Month())]
}

func (e expression) ticks(r reading, step time.Duration) bool {
	if e.fits(r.wall) && (!r.wall.Before(r.shown) || e.interval && e.fits(r.wall.Add(-r.change))) {
		return true
	}
	for missing := r.shown; missing.Before(r.wall); missing = missing.Add(step) {
		if e.fits(missing) && (!e.interval || !e.fits(missing.Add(r.change))) {
			return true
		}
	}
	return false
}

// changesOf looks at each day, and does not trust Time.ZoneBounds, which is wrong on the last day of a leap year.
func changesOf(zone *time.Location, from, until time.Time) []time.Time {
	offset := func(t time.Time) int { _, o := t.In(zone).Zone(); return o }
	var changes []time.Time
	for ; from.Before(until); from = from.AddDate(0, 0, 1) {
		begin, seconds := from, 24*60*60
		if offset(begin) == offset(begin.AddDate(0, 0, 1)) {
			continue
		}
		after := sort.Search(seconds, func(s int) bool { return offset(begin.Add(time.Duration(s)*time.Second)) != offset(begin) })
		changes = append(changes, begin.Add(time.Duration(after)*time.Second))
	}
	return changes
}

type zone struct{ name, data string }

// zones reads the names and files of the tz database.
func zones(t *testing.T) []zone {
	t.Helper()
	file := string(must(os.ReadFile("zoneinfo.zip")))
	archive := must(zip.NewReader(strings.NewReader(file), int64(len(file))))
	var all []zone
	for _, f := range archive.File {
		all = append(all, zone{f.Name, string(must(fs.ReadFile(archive, f.Name)))})
	}
	return all
}

func date(year int) time.Time { return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC) }
