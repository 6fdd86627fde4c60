package worker

import (
	"testing"
	"time"
)

func TestModeFollowsTheNews(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_800_000_000_000)
	var m mode
	for i, step := range []struct {
		in       time.Duration
		news     bool
		degraded bool
	}{
		{0, false, false},
		{time.Second, true, true},
		{2 * time.Second, false, true},
		{6 * time.Second, false, true}, // five seconds after the news, not more
		{6*time.Second + time.Millisecond, false, false},
		{20 * time.Second, true, true},
		{24 * time.Second, true, true},
		{29 * time.Second, false, true},
		{30 * time.Second, false, false},
	} {
		if m = m.after(step.news, at.Add(step.in)); m.degraded != step.degraded {
			t.Errorf("step %d: degraded is %v, want %v", i, m.degraded, step.degraded)
		}
	}
}

func TestManyWorkersLookLessOftenEach(t *testing.T) {
	t.Parallel()
	for members, want := range map[int]time.Duration{1: 50, 5: 50, 9: 50, 10: 100, 64: 600, 1000: 1000} {
		m := mode{degraded: true}
		if got := m.interval(members); got != want*time.Millisecond || m.ahead(members) != 2*got {
			t.Errorf("%d workers: every %v, %v ahead; want every %vms, twice as far ahead", members, got, m.ahead(members), int(want))
		}
		if got := (mode{}).interval(members); got != time.Second {
			t.Errorf("%d workers in good health: every %v, want 1s", members, got)
		}
	}
}
