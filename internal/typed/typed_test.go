package typed

import (
	"errors"
	"testing"
	"time"
	_ "time/tzdata"
)

func TestTime(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 1, 15, 30, 0, 0, berlin)
	for _, c := range []struct {
		text string
		day  Day
		want string
	}{
		{"now", Today, "2026-03-01T14:30:00Z"},
		{"+2h", Today, "2026-03-01T16:30:00Z"},
		{"-30m", Next, "2026-03-01T14:00:00Z"},
		{"+1d", Today, "2026-03-02T14:30:00Z"},
		{"-2d12h", Today, "2026-02-27T02:30:00Z"},
		{"2026-03-01T14:00:00Z", Today, "2026-03-01T14:00:00Z"},
		{"2026-03-01T14:00:00.25+08:00", Today, "2026-03-01T06:00:00.25Z"},
		{"2026-03-02T14:00", Today, "2026-03-02T13:00:00Z"},
		{"2026-03-02T14:00:05", Today, "2026-03-02T13:00:05Z"},
		{"2026-07-02 14:00:05", Today, "2026-07-02T12:00:05Z"},
		{"2026-07-02 14:00", Today, "2026-07-02T12:00:00Z"},
		{"2026-07-02", Today, "2026-07-01T22:00:00Z"},
		{"14:00", Today, "2026-03-01T13:00:00Z"},
		{"14:00", Next, "2026-03-02T13:00:00Z"},
		{"9:05", Next, "2026-03-02T08:05:00Z"},
		{"15:30", Next, "2026-03-02T14:30:00Z"},
		{"16:00:30", Next, "2026-03-01T15:00:30Z"},
	} {
		m, err := Time(c.text, now, c.day)
		if got := m.On(now).UTC().Format(time.RFC3339Nano); err != nil || got != c.want {
			t.Errorf("%q: got %s (%v), want %s", c.text, got, err, c.want)
		}
	}
	for text, want := range map[string]error{
		"": ErrTime, "noon": ErrTime, "2h": ErrTime, "25:00": ErrTime, "2026-02-30": ErrTime, "1772371800": ErrTime,
		"+": ErrSpan, "+2": ErrSpan, "+x": ErrSpan, "+-2h": ErrSpan, "++1d": ErrSpan, "--1h": ErrSpan, "+1d-2h": ErrSpan, "+1d+2h": ErrSpan,
		"+999999999d": ErrSpan, "+99999999999999999999d": ErrSpan, "+100000d1h": ErrSpan, "-2562047h47m16.854775807s": ErrSpan, "-+3d": ErrSpan,
		"2026-03-29 02:30": ErrGap, "0001-01-01T00:00:00Z": ErrEarly, "1969-12-31": ErrEarly,
	} {
		if m, err := Time(text, now, Today); !errors.Is(err, want) {
			t.Errorf("%q: got %v, error %v, want %v", text, m, err, want)
		}
	}
	if d, err := Span("100000d"); err != nil || d != maxSpan {
		t.Errorf("the longest span: got %v, %v", d, err)
	}
}
