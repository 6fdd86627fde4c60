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
	ctx := context.Background()
	cfg, err := duetime.LoadConfig("") // configs/duetime.yaml and the environment
	check(err)
	client, err := duetime.Open(cfg)
	check(err)
	defer closing(ctx, client)
	check(client.Ready(ctx)) // waits for MySQL
}

// opened is the code of ExampleOpen as a function.
func opened(ctx context.Context) *duetime.Client {
	cfg, err := duetime.LoadConfig("")
	check(err)
	client, err := duetime.Open(cfg)
	check(err)
	check(client.Ready(ctx))
	return client
}

func closing(ctx context.Context, client *duetime.Client) { check(client.Close(ctx)) }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A meal and its end are scheduled in one transaction.
func ExampleClient_InTx() {
	ctx := context.Background()
	client := opened(ctx)
	defer closing(ctx, client)

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

// A service that has its own transactions goes on using them.
func ExampleClient_Join() {
	ctx := context.Background()
	client := opened(ctx)
	defer closing(ctx, client)
	dsn := "user:password@tcp(127.0.0.1:3306)/game?transaction_isolation=%27READ-COMMITTED%27" // on MariaDB before 11.1: tx_isolation
	db, err := sql.Open("mysql", dsn)                                                          // the service's own
	check(err)

	tx, err := db.BeginTx(ctx, nil)
	check(err)
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	joined := client.Join(tx)
	_, err = joined.Schedule(ctx, MealFinished.New("ada", Meal{Pet: 7}, task.In(4*time.Hour)))
	check(err)
	_, err = tx.ExecContext(ctx, "UPDATE pets SET food = food - 1 WHERE id = 7")
	check(err)
	check(joined.Commit(ctx)) // instead of tx.Commit
}

// A speed-up card moves the end of a meal forward, but not before now.
func ExampleClient_Shift() {
	ctx := context.Background()
	client := opened(ctx)
	defer closing(ctx, client)
	meal, err := task.ParseID("01926f2c-7a1b-7def-8000-0123456789ab") // the service has stored the id
	check(err)

	moved, err := client.Shift(ctx, meal, -2*time.Hour)
	if errors.Is(err, task.ErrAlreadyDone) {
		fmt.Println("the pet has finished its meal")
		return
	}
	check(err)
	fmt.Println("the meal ends at", moved.DueAt)
}

// A handler's effect commits together with the end of its task, exactly once.
func ExampleClient_Work() {
	ctx := context.Background()
	client := opened(ctx)
	defer closing(ctx, client)

	mux := worker.NewMux()
	worker.Handle(mux, MealFinished, func(ctx context.Context, tx *worker.Tx, t worker.Task[Meal]) error {
		_, err := tx.ExecContext(ctx, "UPDATE pets SET meals_eaten = meals_eaten + 1 WHERE id = ?", t.Payload.Pet)
		return err
	})
	check(client.Work(ctx, mux)) // until ctx ends
}

// No task is scheduled without a subject, neither by the service nor by one of its handlers.
func ExampleBeforeSchedule() {
	ctx := context.Background()
	cfg, err := duetime.LoadConfig("")
	check(err)
	client, err := duetime.Open(cfg, duetime.BeforeSchedule(func(_ context.Context, spec task.Spec) (task.Spec, error) {
		if spec.Subject() == "" {
			return spec, errors.New("a task must say what it is about")
		}
		return spec, nil
	}))
	check(err)
	defer closing(ctx, client)
}
