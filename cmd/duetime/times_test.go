package main

import (
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/typed"
)

func TestWhatIsNoTimeIsSaidSo(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 1, 15, 30, 0, 0, berlin)
	for text, says := range map[string]string{
		"noon": "is no time; write 2026", "+999999999d": "is no time; write 2026",
		"2026-03-29 02:30": "does not exist in Europe/Berlin", "1969-12-31": "is before 1970",
	} {
		if m, err := parseMoment(text, now, typed.Today); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, error %v, want %q", text, m, err, says)
		}
	}
	if d, err := parseSpan("2"); err == nil || !strings.Contains(err.Error(), "is no span of time; write 2h") {
		t.Errorf("got %v, error %v", d, err)
	}
}

func TestZones(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, want := range map[string]string{
		"UTC": "12:00Z", "Asia/Shanghai": "20:00+08:00", "+05:30": "17:30+05:30", "-03:00": "09:00-03:00",
	} {
		var z zone
		if err := z.Set(name); err != nil || at.In(z.in).Format("15:04Z07:00") != want {
			t.Errorf("%s: %v, noon is %v", name, err, at.In(z.in))
		}
	}
	for _, name := range []string{"", "Mars/Base", "8"} {
		if err := new(zone).Set(name); err == nil {
			t.Errorf("%q is a zone", name)
		}
	}
}
