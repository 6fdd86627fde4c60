package duetime_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/duetime/duetime"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Meal is the payload of a task that ends a pet's meal.
type Meal struct {
	Pet int64 `json:"pet"`
}

// MealFinished is declared once, for the side that schedules and for the side that runs.
var MealFinished = task.NewKind[Meal]("pet.meal_finished", task.MaxAttempts(10))

func ExampleOpen() {
	cfg, err := duetime.LoadConfig("") // configs/duetime.yaml and the environment
	if err != nil {
		log.Fatal(err)
	}
	client, err := duetime.Open(cfg)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer func() { _ = client.Close(ctx) }()
	if err := client.Ready(ctx); err != nil {
		log.Fatal(err)
	}
}

// A meal and its end are one transaction.
func ExampleClient_InTx() {
	var client *duetime.Client // from Open
	ctx := context.Background()

	err := client.InTx(ctx, func(tx *schedule.Tx) error {
		end, err := tx.Schedule(ctx, MealFinished.New("ada", Meal{Pet: 7}, task.In(4*time.Hour), task.Subject("7")))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE pets SET food = food - 1, meal_task_id = ? WHERE id = 7 AND food > 0", end.ID.String())
		return err
	})
	if errors.Is(err, schedule.ErrCommitUnknown) {
		fmt.Println("it may have committed: look before trying again")
	}
}

// A service that has its own transactions keeps them.
func ExampleClient_Join() {
	var client *duetime.Client // from Open
	var db *sql.DB             // the service's own
	ctx := context.Background()

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	joined := client.Join(tx)
	if _, err := joined.Schedule(ctx, MealFinished.New("ada", Meal{Pet: 7}, task.In(4*time.Hour))); err != nil {
		log.Fatal(err)
	}
	if _, err := tx.ExecContext(ctx, "UPDATE pets SET food = food - 1 WHERE id = 7"); err != nil {
		log.Fatal(err)
	}
	if err := joined.Commit(ctx); err != nil { // instead of tx.Commit
		log.Fatal(err)
	}
}

// A speed-up card makes a meal end sooner, but not before now.
func ExampleClient_Shift() {
	var client *duetime.Client // from Open
	var meal task.ID           // as the service noted it

	moved, err := client.Shift(context.Background(), meal, -2*time.Hour)
	switch {
	case errors.Is(err, task.ErrAlreadyDone):
		fmt.Println("the pet has finished its meal")
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Println("the meal ends at", moved.DueAt)
	}
}

// A handler's effect commits together with the end of its task, exactly once.
func ExampleClient_Work() {
	var client *duetime.Client // from Open
	ctx := context.Background()

	mux := worker.NewMux()
	worker.Handle(mux, MealFinished, func(ctx context.Context, tx *worker.Tx, t worker.Task[Meal]) error {
		_, err := tx.ExecContext(ctx, "UPDATE pets SET meals_eaten = meals_eaten + 1 WHERE id = ?", t.Payload.Pet)
		return err
	})
	if err := client.Work(ctx, mux, nil); err != nil { // until ctx ends
		log.Fatal(err)
	}
}
