package recur_test

import (
	"fmt"
	"time"

	"github.com/duetime/duetime/pkg/recur"
)

func ExampleCron() {
	timetable := recur.Cron("30 2 * * *", "Europe/Berlin")
	berlin, _ := time.LoadLocation("Europe/Berlin")
	// On 29 March 2026 the clock goes from 02:00 to 03:00.
	for _, tick := range timetable.Ticks(time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC), 3) {
		fmt.Println(tick.In(berlin).Format("Mon 2 Jan 15:04 MST"))
	}
	fmt.Println(recur.Cron("30 24 * * *", "Europe/Berlin").Check())
	// Output:
	// Sat 28 Mar 02:30 CET
	// Sun 29 Mar 03:00 CEST
	// Mon 30 Mar 02:30 CEST
	// hour must be of 0 to 23, or *, with lists, ranges and steps: end of range (24) above maximum (23): "24"
}

func ExampleEvery() {
	timetable := recur.Every(90 * time.Minute).From(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	for _, tick := range timetable.Ticks(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), 3) {
		fmt.Println(tick)
	}
	// Output:
	// 2026-01-01 12:00:00 +0000 UTC
	// 2026-01-01 13:30:00 +0000 UTC
	// 2026-01-01 15:00:00 +0000 UTC
}

func ExampleParse() {
	timetable := recur.Cron("0 8 * * MON-FRI", "America/New_York")
	text := timetable.String() // what a column stores
	again, err := recur.Parse(text)
	fmt.Println(text, again == timetable, err)
	// Output: cron America/New_York 0 8 * * MON-FRI true <nil>
}

// After an outage of four hours, one task makes up for the missed ticks.
func ExamplePolicy_Plan() {
	timetable := recur.Every(time.Hour)
	eight := time.Date(2026, 1, 1, 8, 0, 0, 0, time.UTC)
	plan := recur.Policy{}.Plan(timetable, recur.Progress{
		Now: eight.Add(4*time.Hour + time.Minute), Last: eight, Made: 1,
		Began: eight, Ended: eight.Add(time.Second),
	})
	fmt.Println(plan.Tick, plan.Skipped)
	// Output: 2026-01-01 12:00:00 +0000 UTC 3
}
