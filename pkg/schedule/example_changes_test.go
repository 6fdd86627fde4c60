package schedule_test

import (
	"context"
	"fmt"
	"time"

	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// A pet's row keeps when its meal ends, and whoever moves the meal moves that too.
func ExampleInChangeFunc() {
	_, s, closing := shop()
	defer closing()
	ctx := context.Background()
	_, err := s.DB().ExecContext(ctx, "CREATE TABLE pets (name TEXT PRIMARY KEY, meal_ends_ms INTEGER)")
	check(err)
	_, err = s.DB().ExecContext(ctx, "INSERT INTO pets (name) VALUES ('cat')")
	check(err)
	client, err := schedule.New(schedule.Config{
		InChange: func(ctx context.Context, tx *schedule.Tx, changes []schedule.Change) error {
			for _, c := range changes {
				const set = "UPDATE pets SET meal_ends_ms = ? WHERE name = ?"
				if _, err := tx.ExecContext(ctx, set, c.After.DueAt.UnixMilli(), c.After.Subject); err != nil {
					return err
				}
			}
			return nil
		},
	}, s, nowhere{}, nowhere{})
	check(err)
	defer client.Close(ctx)

	meal, err := client.Schedule(ctx, OrderExpire.New("ada", Expire{}, task.In(2*time.Hour), task.Subject("cat")))
	check(err)
	_, err = client.Shift(ctx, meal.ID, -time.Hour)
	check(err)
	var agree bool
	err = s.DB().QueryRowContext(ctx, `SELECT pets.meal_ends_ms = meal.due_ms FROM pets
		JOIN duetime_pending AS meal ON meal.owner = 'ada' AND meal.subject = pets.name`).Scan(&agree)
	check(err)
	fmt.Println(agree)
	// Output: true
}
