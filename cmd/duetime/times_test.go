package main

import (
	"strings"
	"testing"
	"time"
)

func TestMomentsAsOperatorsWriteThem(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 1, 15, 30, 0, 0, berlin)
	for _, c := range []struct {
		text string
		day  clockDay
		want string
	}{
		{"2026-03-01T14:00:00Z", today, "2026-03-01T14:00:00Z"},
		{"2026-03-01T14:00:00.25+08:00", today, "2026-03-01T06:00:00.25Z"},
		{"2026-03-02T14:00", today, "2026-03-02T13:00:00Z"},
		{"2026-07-02 14:00:05", today, "2026-07-02T12:00:05Z"},
		{"2026-07-02", today, "2026-07-01T22:00:00Z"},
		{"14:00", today, "2026-03-01T13:00:00Z"},
		{"14:00", next, "2026-03-02T13:00:00Z"},
		{"9:05", next, "2026-03-02T08:05:00Z"},
		{"15:30", next, "2026-03-02T14:30:00Z"},
		{"16:00:30", next, "2026-03-01T15:00:30Z"},
		{"+2h", today, "2026-03-01T16:30:00Z"},
		{"-30m", today, "2026-03-01T14:00:00Z"},
		{"+1d", today, "2026-03-02T14:30:00Z"},
		{"-2d12h", today, "2026-02-27T02:30:00Z"},
		{"now", today, "2026-03-01T14:30:00Z"},
	} {
		m, err := parseMoment(c.text, now, c.day)
		if got := m.on(now).UTC().Format(time.RFC3339Nano); err != nil || got != c.want {
			t.Errorf("%q: got %s (%v), want %s", c.text, got, err, c.want)
		}
	}
	for text, says := range map[string]string{
		"noon": "is no time", "": "is no time", "2h": "is no time", "+2": "is no time", "25:00": "is no time", "2026-02-30": "is no time",
		"+-2h": "is no time", "++1d": "is no time", "+1d-2h": "is no time", "+999999999d": "is no time", "+100000d1h": "is no time", "1772371800": "is no time",
		"2026-03-29 02:30":     "does not exist in Europe/Berlin",
		"0001-01-01T00:00:00Z": "is before 1970", "1969-12-31": "is before 1970",
	} {
		if m, err := parseMoment(text, now, today); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, error %v, want %q", text, m, err, says)
		}
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
