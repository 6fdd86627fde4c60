package recur_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/duetime/duetime/pkg/recur"
)

// TestPlan plans the ticks of each full hour of a day in UTC. Times read 15:04.
func TestPlan(t *testing.T) {
	t.Parallel()
	hourly := valid(recur.Every(time.Hour))
	clock := func(text string) time.Time {
		if text == "" {
			return time.Time{}
		}
		return at("2026-11-26T" + text + ":00Z")
	}
	for _, c := range []struct {
		name                    string
		policy                  recur.Policy
		now, last, began, ended string
		made                    int
		want                    string
	}{
		{"new", recur.Policy{}, "08:10", "", "", "", 0, "make 09:00, skip 0, last 09:00"},
		{"in time", recur.Policy{}, "08:10", "08:00", "08:00", "08:10", 1, "make 09:00, skip 0, last 09:00"},
		{"on the tick", recur.Policy{}, "09:00", "08:00", "08:00", "08:10", 1, "make 09:00, skip 0, last 09:00"},
		{"planned ahead", recur.Policy{}, "08:10", "09:00", "", "", 1, "make 10:00, skip 0, last 10:00"},

		{"missed, last", recur.Policy{}, "12:10", "08:00", "08:00", "08:10", 1, "make 12:00, skip 3, last 12:00"},
		{"missed, skip", recur.Policy{CatchUp: recur.CatchUpSkip}, "12:10", "08:00", "08:00", "08:10", 1, "make 13:00, skip 4, last 13:00"},
		{"missed, all", recur.Policy{CatchUp: recur.CatchUpAll(10)}, "12:10", "08:00", "08:00", "08:10", 1, "make 09:00, skip 0, last 09:00"},
		{"missed, two", recur.Policy{CatchUp: recur.CatchUpAll(2)}, "12:10", "08:00", "08:00", "08:10", 1, "make 11:00, skip 2, last 11:00"},
		{"window", recur.Policy{CatchUp: recur.CatchUpAll(10), Window: 130 * time.Minute}, "12:10", "08:00", "08:00", "08:10", 1, "make 10:00, skip 1, last 10:00"},
		{"window over", recur.Policy{Window: 5 * time.Minute}, "12:10", "08:00", "08:00", "08:10", 1, "make 13:00, skip 4, last 13:00"},
		{"missed before it ran", recur.Policy{}, "12:10", "08:00", "12:05", "12:10", 1, "make 12:00, skip 3, last 12:00"},

		{"running", recur.Policy{}, "10:30", "08:00", "08:00", "", 1, "make none, skip 0, last 08:00"},
		{"running, allow", recur.Policy{Overlap: recur.OverlapAllow}, "08:30", "08:00", "08:00", "", 1, "make 09:00, skip 0, last 09:00"},
		{"running, allow, missed", recur.Policy{Overlap: recur.OverlapAllow}, "10:30", "08:00", "08:00", "", 1, "make 10:00, skip 1, last 10:00"},
		{"overlapped, skip", recur.Policy{}, "10:30", "08:00", "08:00", "10:30", 1, "make 11:00, skip 2, last 11:00"},
		{"overlapped, skip, whatever the catch-up", recur.Policy{CatchUp: recur.CatchUpAll(9)}, "10:30", "08:00", "08:00", "10:30", 1, "make 11:00, skip 2, last 11:00"},
		{"overlapped, buffer one", recur.Policy{Overlap: recur.OverlapBufferOne}, "10:30", "08:00", "08:00", "10:30", 1, "make 10:00, skip 1, last 10:00"},
		{"overlapped, buffer one, beyond the window", recur.Policy{Overlap: recur.OverlapBufferOne, Window: time.Minute}, "10:30", "08:00", "08:00", "10:30", 1, "make 10:00, skip 1, last 10:00"},
		{"overlapped, then missed", recur.Policy{}, "13:30", "08:00", "08:00", "10:30", 1, "make 13:00, skip 4, last 13:00"},
		{"overlapped, then missed, all", recur.Policy{CatchUp: recur.CatchUpAll(9)}, "13:30", "08:00", "08:00", "10:30", 1, "make 11:00, skip 2, last 11:00"},
		{"missed, then overlapped", recur.Policy{CatchUp: recur.CatchUpAll(9)}, "12:30", "08:00", "10:30", "12:30", 1, "make 09:00, skip 0, last 09:00"},

		{"before the start", recur.Policy{Start: clock("10:00")}, "08:10", "", "", "", 0, "make 10:00, skip 0, last 10:00"},
		{"after the start", recur.Policy{Start: clock("07:30")}, "08:10", "08:10", "", "", 0, "make 09:00, skip 0, last 09:00"},
		{"missed since the start", recur.Policy{Start: clock("10:30"), CatchUp: recur.CatchUpAll(9)}, "12:10", "08:00", "", "", 0, "make 11:00, skip 0, last 11:00"},
		{"before the end", recur.Policy{End: clock("09:01")}, "08:10", "08:00", "", "", 1, "make 09:00, skip 0, last 09:00"},
		{"at the end", recur.Policy{End: clock("09:00")}, "08:10", "08:00", "", "", 1, "make none, skip 0, last 08:00, over"},
		{"missed before the end", recur.Policy{End: clock("11:00")}, "12:10", "08:00", "", "", 1, "make 10:00, skip 1, last 10:00"},
		{"skipped before the end", recur.Policy{End: clock("11:00"), CatchUp: recur.CatchUpSkip}, "12:10", "08:00", "", "", 1, "make none, skip 2, last 10:00, over"},
		{"count", recur.Policy{Count: 5}, "08:10", "08:00", "", "", 5, "make none, skip 0, last 08:00, over"},
		{"count, one left", recur.Policy{Count: 5}, "08:10", "08:00", "", "", 4, "make 09:00, skip 0, last 09:00"},
		{"count, missed", recur.Policy{Count: 5, CatchUp: recur.CatchUpAll(9)}, "12:10", "08:00", "", "", 3, "make 09:00, skip 0, last 09:00"},
	} {
		got := c.policy.Plan(hourly, recur.Progress{
			Now: clock(c.now), Last: clock(c.last), Began: clock(c.began), Ended: clock(c.ended), Made: c.made,
		})
		if text := planText(got); text != c.want {
			t.Errorf("%s: got %s, want %s", c.name, text, c.want)
		}
		if err := c.policy.Check(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func planText(p recur.Plan) string {
	tick := "none"
	if !p.Tick.IsZero() {
		tick = p.Tick.Format("15:04")
	}
	text := fmt.Sprintf("make %s, skip %d, last %s", tick, p.Skipped, p.Last.Format("15:04"))
	if p.Over {
		text += ", over"
	}
	return text
}

// TestPlanAfterLongOutage checks that a plan doesn't walk through each missed second of a year.
func TestPlanAfterLongOutage(t *testing.T) {
	t.Parallel()
	now := at("2026-11-26T12:00:00.5Z")
	for _, timetable := range []recur.Timetable{
		valid(recur.Every(time.Second)),
		valid(recur.Cron("* * * * * *", "Europe/Berlin")),
	} {
		got := recur.Policy{CatchUp: recur.CatchUpAll(1000)}.Plan(timetable, recur.Progress{Now: now, Last: now.AddDate(-1, 0, 0)})
		if oldest := now.Truncate(time.Second).Add(-999 * time.Second); got.Skipped != 10_000 || !got.Tick.Equal(oldest) || !got.Last.Equal(oldest) {
			t.Errorf("%s: got %+v, want the oldest of a thousand ticks", timetable, got)
		}
	}
}

// A tick that was missed before a task ran for long gets its task, however many passed meanwhile.
func TestPlanAfterALongRun(t *testing.T) {
	t.Parallel()
	last := at("2026-11-26T12:00:00Z")
	began, ended := last.Add(10*time.Second), last.Add(6*time.Hour)
	got := recur.Policy{}.Plan(valid(recur.Cron("* * * * * *", "Europe/Berlin")), recur.Progress{Now: ended, Last: last, Began: began, Ended: ended})
	if !got.Tick.Equal(began) || got.Skipped != 9 {
		t.Errorf("got %+v, want the latest tick of before", got)
	}
}

// Skipped ticks are counted by whole days, hours and minutes, also around changes of a clock: as many as one by one.
func TestSkippedTicksAreCounted(t *testing.T) {
	t.Parallel()
	crons := slices.Concat(expressions, exactExpressions, []string{"0,30 30 2,3 * * *", "0,30 0,30 0-3 * * *", "30 0,30 * 1,2 * *"})
	for zone, changes := range map[string][]string{
		"Europe/Berlin":       {"2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z"},
		"Australia/Lord_Howe": {"2026-04-04T15:00:00Z", "2026-10-03T15:30:00Z"},
		"America/Santiago":    {"2026-04-05T03:00:00Z", "2026-09-06T04:00:00Z"},
		"UTC":                 {"2026-02-28T12:00:00Z"},
	} {
		for _, change := range changes {
			for i, cron := range crons {
				timetable := valid(recur.Cron(cron, zone))
				now := at(change).Add(time.Duration(i) * 97 * time.Minute)
				last := now.Add(-time.Duration(len(crons)-i)*151*time.Minute - time.Duration(i)*time.Second)
				want := 0
				for tick := timetable.Next(last); !tick.After(now) && want < 10_000; tick = timetable.Next(tick) {
					want++
				}
				got := recur.Policy{CatchUp: recur.CatchUpSkip}.Plan(timetable, recur.Progress{Now: now, Last: last})
				if got.Skipped != want || !got.Tick.Equal(timetable.Next(now)) {
					t.Errorf("%s %s, from %v to %v: got %+v, want %d skipped", zone, cron, last, now, got, want)
				}
			}
		}
	}
}

// A batch of recurrences is planned while its rows are locked: here each has passed a week of minutes.
func BenchmarkPlanAfterAWeek(b *testing.B) {
	timetable, now := valid(recur.Cron("* * * * *", "Europe/Berlin")), at("2026-11-26T12:00:00Z")
	for b.Loop() {
		recur.Policy{}.Plan(timetable, recur.Progress{Now: now, Last: now.AddDate(0, 0, -7)})
	}
}

func TestCheckPolicy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy recur.Policy
		want   string
	}{
		{recur.Policy{CatchUp: recur.CatchUpAll(0)}, "catch_up must be last, skip, or all with 1 to 1000"},
		{recur.Policy{CatchUp: recur.CatchUpAll(1001)}, "catch_up must be last, skip, or all with 1 to 1000"},
		{recur.Policy{Window: -1}, "window must be 0 (none) to 10 years"},
		{recur.Policy{Overlap: 3}, "overlap must be skip, buffer one or allow"},
		{recur.Policy{Jitter: 25 * time.Hour}, "jitter must be 0 to 24h0m0s"},
		{recur.Policy{Start: date(2027), End: date(2027)}, "end must be after the start"},
		{recur.Policy{Count: -1}, "count must be 0 (no limit) to 1000000000"},
		{recur.Policy{Revision: -1}, "revision must be 0 to 1000000000"},
	} {
		if err := c.policy.Check(); err == nil || err.Error() != c.want {
			t.Errorf("%+v: got %v, want %s", c.policy, err, c.want)
		}
	}
}

// TestDelay holds the hash to values of before: another one would move tasks that people expect.
func TestDelay(t *testing.T) {
	t.Parallel()
	p, tick := recur.Policy{Jitter: time.Hour}, at("2026-11-26T08:00:00Z")
	var got []time.Duration
	for _, id := range []string{"", "a", "b"} {
		got = append(got, p.Delay(id, tick), p.Delay(id, tick.Add(time.Minute)))
	}
	want := []time.Duration{
		35*time.Minute + 48127*time.Millisecond, 31*time.Minute + 37559*time.Millisecond,
		22*time.Minute + 39438*time.Millisecond, 36*time.Minute + 491*time.Millisecond,
		21*time.Minute + 44855*time.Millisecond, 41*time.Minute + 26753*time.Millisecond,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if d := (recur.Policy{}).Delay("a", tick); d != 0 {
		t.Errorf("without jitter: got %v", d)
	}
	// 200,000 recurrences with one tick spread evenly: each of 60 minutes has its share, give or take 6 deviations.
	const recurrences = 200_000
	var minutes [60]int
	for i := range recurrences {
		minutes[p.Delay(fmt.Sprintf("recurrence-%d", i), tick)/time.Minute]++
	}
	for minute, n := range minutes {
		if share := recurrences / 60.0; math.Abs(float64(n)-share) > 6*math.Sqrt(share) {
			t.Errorf("minute %d: got %d tasks of %d", minute, n, recurrences)
		}
	}
}
