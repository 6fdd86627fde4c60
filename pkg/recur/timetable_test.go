package recur_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/pkg/recur"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// valid is a timetable that Check does not refuse.
func valid(t recur.Timetable) recur.Timetable {
	if err := t.Check(); err != nil {
		panic(err)
	}
	return t
}

func at(text string) time.Time { return must(time.Parse(time.RFC3339Nano, text)) }

func TestEvery(t *testing.T) {
	t.Parallel()
	anchor := at("2026-01-01T00:00:00.25Z")
	timetable := valid(recur.Every(90 * time.Minute).From(anchor))
	for _, c := range []struct{ after, want string }{
		{"1970-01-01T00:00:00Z", "2026-01-01T00:00:00.25Z"},
		{"2026-01-01T00:00:00.249999999Z", "2026-01-01T00:00:00.25Z"},
		{"2026-01-01T00:00:00.25Z", "2026-01-01T01:30:00.25Z"},
		{"2026-01-01T01:30:00.249999Z", "2026-01-01T01:30:00.25Z"},
		{"2026-01-01T01:30:00.250001Z", "2026-01-01T03:00:00.25Z"},
		{"2026-03-29T03:00:00+02:00", "2026-03-29T01:30:00.25Z"},
		{"2500-01-01T00:00:00Z", "2500-01-01T00:00:00.25Z"},
	} {
		if got := timetable.Next(at(c.after)); !got.Equal(at(c.want)) || got.Location() != time.UTC {
			t.Errorf("after %s: got %v, want %s", c.after, got, c.want)
		}
	}
	if got := valid(recur.Every(time.Hour)).Next(anchor); !got.Equal(at("2026-01-01T01:00:00Z")) {
		t.Errorf("without an anchor: got %v, want the full hour", got)
	}
	if got := (recur.Timetable{}).Next(anchor); !got.IsZero() {
		t.Errorf("the zero timetable: got %v", got)
	}
}

func TestCron(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ expr, zone, after, want string }{
		{"0 8 * * MON-FRI", "Europe/Berlin", "2026-11-27T07:00:00Z", "2026-11-30T07:00:00Z"},
		{"30 0 8 * * *", "Asia/Kolkata", "2026-11-27T00:00:00Z", "2026-11-27T02:30:30Z"},
		{"@weekly", "UTC", "2026-11-26T00:00:00Z", "2026-11-29T00:00:00Z"},
		{"@monthly", "UTC", "2026-11-26T00:00:00Z", "2026-12-01T00:00:00Z"},
		{"@yearly", "UTC", "2026-11-26T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"0 0 13 * FRI", "UTC", "2026-11-26T00:00:00Z", "2026-11-27T00:00:00Z"},
		{"0 0 ? * 7", "UTC", "2026-11-26T00:00:00Z", "2026-11-29T00:00:00Z"},
		{"0 22-2 * * *", "UTC", "2026-11-26T22:00:00.5Z", "2026-11-26T23:00:00Z"},
		{"0 0 29 2 *", "UTC", "2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z"},
		{"0 0 31 * *", "UTC", "2026-08-31T00:00:00Z", "2026-10-31T00:00:00Z"},
		{"0 0 L * *", "UTC", "2026-08-31T00:00:00Z", "2026-09-30T00:00:00Z"},
		{"0 0 l 2 *", "UTC", "2026-08-31T00:00:00Z", "2027-02-28T00:00:00Z"},
		{"0 0 L 2 *", "UTC", "2027-08-31T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"0 0 15,L * *", "UTC", "2026-09-15T00:00:00Z", "2026-09-30T00:00:00Z"},
		{"0 0 1-3,L * *", "UTC", "2026-09-30T00:00:00Z", "2026-10-01T00:00:00Z"},
		{"0 18 LW * *", "Europe/Berlin", "2026-10-01T00:00:00Z", "2026-10-30T17:00:00Z"},
		{"0 18 LW * *", "UTC", "2027-01-30T00:00:00Z", "2027-02-26T18:00:00Z"},
		{"0 0 * * 5#2", "UTC", "2026-11-26T00:00:00Z", "2026-12-11T00:00:00Z"},
		{"0 0 ? * FRI#2,1#1", "UTC", "2026-11-26T00:00:00Z", "2026-12-07T00:00:00Z"},
		{"0 0 * * 7#5", "UTC", "2026-11-29T00:00:00Z", "2027-01-31T00:00:00Z"},
		{"0 0 * * SAT#5", "UTC", "2026-11-26T00:00:00Z", "2027-01-30T00:00:00Z"},
		{"0 0 L * 5#1", "UTC", "2026-11-30T00:00:00Z", "2026-12-04T00:00:00Z"},
		{"0 0 L * 5#1", "UTC", "2026-12-04T00:00:00Z", "2026-12-31T00:00:00Z"},
		{"0 0 * * MON,5#2", "UTC", "2026-12-08T00:00:00Z", "2026-12-11T00:00:00Z"},
	} {
		got := valid(recur.Cron(c.expr, c.zone)).Next(at(c.after))
		if !got.Equal(at(c.want)) || got.Location() != time.UTC {
			t.Errorf("%s after %s: got %v, want %s", c.expr, c.after, got, c.want)
		}
	}
	for _, never := range []string{"0 0 30 2 *", "* * 31 2,4,6,9,11 *"} {
		timetable := valid(recur.Cron(never, "Europe/Berlin"))
		if got := timetable.Ticks(at("2026-01-01T00:00:00Z"), 5); len(got) != 0 {
			t.Errorf("%s: got %v, want no tick", never, got)
		}
	}
}

// Months that are too short for the day have no tick.
func TestShortMonths(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string][]time.Month{
		"0 0 31 * *":     {time.February, time.April, time.June, time.September, time.November},
		"0 0 30-31 * *":  {time.February},
		"0 0 29 * *":     {time.February},
		"0 0 31 4-7 *":   {time.April, time.June},
		"0 0 28 * *":     nil,
		"0 0 15,31 * *":  nil,
		"0 0 31,L * *":   nil,
		"0 0 LW * *":     nil,
		"0 0 31 * MON":   nil,
		"0 0 * * 5#2":    nil,
		"0 0 31 1,3,5 *": nil,
		"@daily":         nil,
	} {
		if got := valid(recur.Cron(expr, "UTC")).ShortMonths(); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", expr, got, want)
		}
	}
	if got := recur.Every(time.Hour).ShortMonths(); got != nil {
		t.Errorf("an interval: got %v", got)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	const withoutZone = `timetable must read "cron ZONE EXPRESSION", such as "cron Asia/Shanghai 0 8 * * *": did you mean `
	day := at("2026-01-01T00:00:00Z")
	for _, c := range []struct {
		name    string
		got     recur.Timetable
		refused string
	}{
		{"below a second", recur.Every(time.Second - 1), "every must be 1s to 10 years, in whole milliseconds"},
		{"above ten years", recur.Every(88_000 * time.Hour), "every must be 1s to 10 years"},
		{"microseconds", recur.Every(time.Second + time.Microsecond), "every must be 1s to 10 years, in whole milliseconds"},
		{"anchor", recur.Every(time.Second).From(date(1969)), "anchor must lie in the years 1970 to 9999, and is for Every alone"},
		{"anchor of a cron", recur.Cron("@daily", "UTC").From(day), "anchor must lie in the years 1970 to 9999, and is for Every alone"},
		{"anchor of none", recur.Every(0).From(day), "every must be 1s to 10 years"},
		{"zero", recur.Timetable{}, "timetable must be made by Every, Cron or Parse"},
		{"minute", recur.Cron("60 * * * *", "UTC"), `minute must be of 0 to 59, or *, with lists, ranges and steps: end of range (60) above maximum (59): "60"`},
		{"hour", recur.Cron("0 24 * * *", "UTC"), "hour must be of 0 to 23"},
		{"second", recur.Cron("*/90 * * * * *", "UTC"), "second must be of 0 to 59"},
		{"day", recur.Cron("0 0 0 * *", "UTC"), "day of month must be of 1 to 31"},
		{"day before the last", recur.Cron("0 0 L-3 * *", "UTC"), `day of month must be of 1 to 31, L (the last day) or LW (the last Monday to Friday), or *, with lists, ranges and steps: "L-3"`},
		{"nearest weekday", recur.Cron("0 0 15W * *", "UTC"), "day of month must be of 1 to 31, L"},
		{"sixth weekday", recur.Cron("0 0 * * 5#6", "UTC"), "day of week must be of 0 to 7 or SUN to SAT, or the first to fifth of one in the month, such as 5#2"},
		{"last weekday of the week", recur.Cron("0 0 * * 5#L", "UTC"), "day of week must be of 0 to 7"},
		{"L of the week", recur.Cron("0 0 * * L", "UTC"), "day of week must be of 0 to 7"},
		{"# of a month", recur.Cron("0 0 5#2 * *", "UTC"), "day of month must be of 1 to 31, L"},
		{"# of an hour", recur.Cron("0 5#2 * * *", "UTC"), "hour must be of 0 to 23"},
		{"L of an hour", recur.Cron("0 L * * *", "UTC"), "hour must be of 0 to 23"},
		{"month", recur.Cron("0 0 1 FOO *", "UTC"), "month must be of 1 to 12 or JAN to DEC"},
		{"weekday", recur.Cron("0 0 * * 8", "UTC"), "day of week must be of 0 to 7 or SUN to SAT"},
		{"no value", recur.Cron(", * * * *", "UTC"), "minute must be of 0 to 59"},
		{"empty item", recur.Cron("1,,2 * * * *", "UTC"), "minute must be of 0 to 59"},
		{"sign", recur.Cron("+5 * * * *", "UTC"), "minute must be of 0 to 59"},
		{"four fields", recur.Cron("0 0 * *", "UTC"), "cron must have five fields (minute, hour, day of month, month, day of week)"},
		{"seven fields", recur.Cron("0 0 0 * * * *", "UTC"), "cron must have five fields"},
		{"every", recur.Cron("@every 1h", "UTC"), "cron must have five fields"},
		{"midnight", recur.Cron("@midnight", "UTC"), "cron must have five fields"},
		{"zone in the expression", recur.Cron("TZ=UTC 0 0 * * *", "UTC"), "second must be of 0 to 59"},
		{"long", recur.Cron(strings.Repeat("1,", 125)+"1 * * * *", "UTC"), "cron must be at most 246 bytes in this zone"},
		{"Local", recur.Cron("@daily", "Local"), "zone must be a name of the tz database, such as Europe/Berlin or UTC"},
		{"no zone", recur.Cron("@daily", ""), "zone must be a name of the tz database"},
		{"host's zone file", recur.Cron("@daily", "../etc/localtime"), "zone must be a name of the tz database"},
		{"unknown zone", recur.Cron("@daily", "Europe/berlin"), `zone must be a name of the tz database, such as Europe/Berlin or UTC, and is "Europe/berlin"`},
		{"directory", recur.Cron("@daily", "Europe"), "zone must be a name of the tz database"},
		{"empty text", parseOf(""), `timetable must read "cron ZONE EXPRESSION", such as "cron Asia/Shanghai 0 8 * * *"; or must read "every DURATION from TIME"`},
		{"no zone in the text", parseOf("cron 0 8 * * *"), withoutZone + `"cron UTC 0 8 * * *"?`},
		{"expression alone", parseOf("@daily"), withoutZone + `"cron UTC @daily"?`},
		{"expression that can't be read", parseOf("cron UTC 0 8 * * 9"), "day of week must be of 0 to 7"},
		{"no anchor", parseOf("every 1h"), `timetable must read "every DURATION from TIME"`},
		{"no duration", parseOf("every hour from 2026-01-01T00:00:00Z"), "every must be a duration such as 1h30m"},
		{"no time", parseOf("every 1h from now"), "anchor must be a time such as 2026-01-01T00:00:00Z"},
	} {
		err := c.got.Check()
		var field *recur.FieldError
		if !errors.As(err, &field) || !strings.HasPrefix(err.Error(), c.refused) || !c.got.Next(day).IsZero() {
			t.Errorf("%s: got %v and %v, want %s", c.name, c.got, err, c.refused)
		}
	}
}

// parseOf is what Parse makes of a text that it refuses.
func parseOf(text string) recur.Timetable {
	timetable, err := recur.Parse(text)
	if err == nil || timetable.Check() == nil {
		panic(text + " is not refused")
	}
	return timetable
}

func TestTextForm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		timetable recur.Timetable
		text      string
	}{
		{valid(recur.Every(90 * time.Minute).From(at("2026-01-01T01:00:00.0019+01:00"))), "every 1h30m0s from 2026-01-01T00:00:00.001Z"},
		{valid(recur.Cron("  0 8\t* *  MON-FRI ", "Europe/Berlin")), "cron Europe/Berlin 0 8 * * MON-FRI"},
		{valid(recur.Cron("@daily", "UTC")), "cron UTC @daily"},
	} {
		if c.timetable.String() != c.text || must(recur.Parse(c.text)) != c.timetable {
			t.Errorf("got %q and %v, want %q and an equal timetable", c.timetable, must(recur.Parse(c.text)), c.text)
		}
	}
}

// FuzzParse reads any text: a FieldError, or a timetable whose text reads back as an equal timetable and whose ticks increase.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"every 1s from 1970-01-01T00:00:00Z", "every 1h from 9999-12-31T23:59:59.999Z", "every -1h from now",
		"cron UTC * * * * *", "cron Europe/Berlin 0 8 * * MON-FRI", "cron America/Sao_Paulo */7 1-5/2,8 0,12 31 2 ?", "cron UTC @hourly",
		"cron Australia/Lord_Howe 59 */15 2 1 * FRI-MON/2", "cron Pacific/Apia 30 12 30 12 *", "cron Local @daily", "cron UTC , , , , ,",
	} {
		f.Add(seed, int64(1774742400))
	}
	f.Fuzz(func(t *testing.T, text string, unix int64) {
		timetable, err := recur.Parse(text)
		if err != nil {
			if field := (*recur.FieldError)(nil); !errors.As(err, &field) || field.Field == "" || field.Problem == "" {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		if back, err := recur.Parse(timetable.String()); err != nil || back != timetable || len(timetable.String()) > 255 {
			t.Fatalf("%q reads back as %q, %v", timetable, back, err)
		}
		after := time.Unix(unix%(1<<32), 0)
		for _, tick := range timetable.Ticks(after, 5) {
			if !tick.After(after) {
				t.Fatalf("%s: %v is not later than %v", timetable, tick, after)
			}
			after = tick
		}
	})
}

// TestTZVersion holds the tz database to the one of the Go that compiles it: go generate brings a newer one.
func TestTZVersion(t *testing.T) {
	t.Parallel()
	root := strings.TrimSpace(string(must(exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output())))
	script, err := os.ReadFile(filepath.Join(root, "lib/time/update.bash"))
	if err != nil {
		t.Skip(err) // a Go without the sources of its tz database
	}
	_, version, _ := strings.Cut(string(script), "\nDATA=")
	version, _, _ = strings.Cut(version, "\n")
	switch {
	case recur.TZVersion() < version:
		t.Errorf("version %s, while Go has %s: run go generate ./pkg/recur", recur.TZVersion(), version)
	case recur.TZVersion() == version:
		theirs, ours := must(os.ReadFile(filepath.Join(root, "lib/time/zoneinfo.zip"))), must(os.ReadFile("zoneinfo.zip"))
		if string(theirs) != string(ours) {
			t.Errorf("version %s is not the one that Go has", version)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	for _, c := range []struct{ name, text string }{
		{"every", "every 1h0m0s from 2026-01-01T00:00:00Z"},
		{"daily", "cron Europe/Berlin 0 8 * * *"},
		{"yearly", "cron Europe/Berlin @yearly"},
		{"never", "cron Europe/Berlin 0 0 30 2 *"},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			timetable, after := must(recur.Parse(c.text)), at("2026-11-26T08:00:00Z")
			for b.Loop() {
				timetable.Next(after)
			}
		})
	}
}
