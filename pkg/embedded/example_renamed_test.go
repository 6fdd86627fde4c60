package embedded_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/duetime/duetime/pkg/embedded"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Meal is the payload of MealDone, and of FeedDone, as later versions of the service call the same kind.
type Meal struct {
	Food string `json:"food"`
}

// The kind before it was renamed, and after.
var (
	MealDone = task.NewKind[Meal]("meal.done")
	FeedDone = task.NewKind[Meal]("feed.done", task.Was("meal.done"))
)

// A task waits under the name that its kind had. The version of the service in which the kind has another name moves it by its key, and runs
// it.
func Example_renamed() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	dir, err := os.MkdirTemp("", "duetime-example-")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	p, err := embedded.OpenSQLite(ctx, filepath.Join(dir, "pets.db"), embedded.Config{Logger: slog.New(slog.DiscardHandler)})
	check(err)
	defer func() { check(p.Close(context.Background())) }()
	waits, err := p.Schedule(ctx, MealDone.New("ann", Meal{Food: "fish"}, task.In(time.Hour), task.KeyReplace("bowl")))
	check(err)

	mux := worker.NewMux()
	worker.Handle(mux, FeedDone, func(_ context.Context, _ *worker.Tx, m worker.Task[Meal]) error {
		fmt.Println(m.Kind, "of", m.Payload.Food)
		return nil
	})
	mux.OnEvent(func(context.Context, worker.Event) { stop() }) // a service works until a signal
	moved, err := p.Schedule(ctx, FeedDone.New("ann", Meal{Food: "rice"}, task.In(0), task.KeyReplace("bowl")))
	check(err)
	fmt.Println("one task:", moved.ID == waits.ID)
	check(p.Work(ctx, mux))
	// Output:
	// one task: true
	// meal.done of rice
}
