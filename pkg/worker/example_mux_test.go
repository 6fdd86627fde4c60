package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // for OpenSQLite

	"github.com/duetime/duetime/pkg/embedded"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// workUntilReported runs the mux in a pipeline of its own until a hook was called with the task.
func workUntilReported(mux *worker.Mux, spec task.Spec) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "duetime-example-")
	check(err)
	p, err := embedded.OpenSQLite(ctx, filepath.Join(dir, "shop.db"), embedded.Config{Logger: slog.New(slog.DiscardHandler)})
	check(err)
	_, err = p.Schedule(ctx, spec)
	check(err)
	mux.OnEvent(func(context.Context, worker.Event) { cancel() })
	check(p.Work(ctx, mux))
	check(p.Close(context.Background()))
	check(os.RemoveAll(dir))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// tenant is the key of a value that middleware gives to handlers.
type tenant struct{}

// Middleware wraps each call of each handler: here it gives the handler a value, and prints what came of the call.
func ExampleMux_Use() {
	mux := worker.NewMux()
	mux.Use(func(next worker.HandlerFunc) worker.HandlerFunc {
		return func(ctx context.Context, tasks []task.Task) error {
			err := next(context.WithValue(ctx, tenant{}, "west"), tasks)
			fmt.Println(tasks[0].Kind, len(tasks), err)
			return err
		}
	})
	worker.Handle(mux, orderExpires, func(ctx context.Context, _ *worker.Tx, t worker.Task[expiry]) error {
		fmt.Println("order", t.Payload.OrderID, "of", ctx.Value(tenant{}))
		return nil
	})
	workUntilReported(mux, orderExpires.New("ada", expiry{OrderID: 42}, task.In(0)))
	// Output:
	// order 42 of west
	// order.expire 1 <nil>
}

// A hook sees what became of a task once that is committed.
func ExampleMux_OnEvent() {
	mux := worker.NewMux()
	mux.OnEvent(func(_ context.Context, e worker.Event) {
		if e.Name == task.EventDead {
			fmt.Println(e.Task.Kind, "of", e.Task.Owner, "is dead:", e.Err)
		}
	})
	worker.Handle(mux, orderExpires, func(context.Context, *worker.Tx, worker.Task[expiry]) error {
		return worker.Discard(errors.New("no such order"))
	})
	workUntilReported(mux, orderExpires.New("ada", expiry{OrderID: 42}, task.In(0)))
	// Output: order.expire of ada is dead: discarded: no such order
}
