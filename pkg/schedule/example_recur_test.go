package schedule_test

import (
	"context"
	"fmt"
	"time"

	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// Gift is the payload of a reward.
type Gift struct {
	Coins int `json:"coins"`
}

var dailyReward = task.NewKind[Gift]("reward.daily")

// Each player gets a reward at eight in the morning of the player's zone. The recurrence begins with the row that it is about,
// and a second start of the service changes nothing.
func ExampleTx_Recur() {
	ctx := context.Background()
	client, s, closing := shop()
	defer closing()
	_, err := s.DB().ExecContext(ctx, "CREATE TABLE players (name TEXT PRIMARY KEY, zone TEXT)")
	check(err)

	morning := recur.Cron("0 8 * * *", "Asia/Shanghai")
	for _, next := range morning.Ticks(time.Date(2026, 12, 24, 0, 0, 0, 0, time.UTC), 2) {
		fmt.Println("to come", next)
	}
	var first, second task.Recurrence
	check(client.InTx(ctx, func(tx *schedule.Tx) (err error) {
		if _, err = tx.ExecContext(ctx, "INSERT INTO players VALUES ('ann', 'Asia/Shanghai')"); err != nil {
			return err
		}
		first, err = tx.Recur(ctx, "daily reward", morning, dailyReward.Recurring("ann", Gift{Coins: 5}), recur.Policy{})
		return err
	}))
	second, err = client.Recur(ctx, "daily reward", morning, dailyReward.Recurring("ann", Gift{Coins: 5}), recur.Policy{})
	check(err)
	fmt.Println("one recurrence:", first.ID == second.ID, "with one task:", first.Newest == second.Newest)

	_, err = client.PauseRecurrence(ctx, "ann", "daily reward", "on holiday")
	check(err)
	all, err := client.Recurrences(ctx, "ann")
	check(err)
	fmt.Println(all[0].Name, all[0].State, all[0].Note)
	// Output:
	// to come 2026-12-25 00:00:00 +0000 UTC
	// to come 2026-12-26 00:00:00 +0000 UTC
	// one recurrence: true with one task: true
	// daily reward paused on holiday
}
