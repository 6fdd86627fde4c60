package worker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

type expiry struct {
	OrderID int64 `json:"order_id"`
}

var orderExpires = task.NewKind[expiry]("order.expire", task.MaxAttempts(10))

// A handler gets the payload and a transaction; what it does there takes effect exactly once, with the end of the task.
func ExampleHandle() {
	mux := worker.NewMux()
	worker.Handle(mux, orderExpires, func(ctx context.Context, tx *worker.Tx, t worker.Task[expiry]) error {
		_, err := tx.ExecContext(ctx, "UPDATE orders SET state = 'expired' WHERE id = ? AND state = 'unpaid'", t.Payload.OrderID)
		return err
	})
}

// One statement has the effects of up to a hundred tasks.
func ExampleHandleBatch() {
	mux := worker.NewMux()
	worker.HandleBatch(mux, orderExpires, func(ctx context.Context, tx *worker.Tx, ts []worker.Task[expiry]) error {
		ids := make([]int64, len(ts))
		for i, t := range ts {
			ids[i] = t.Payload.OrderID
		}
		query, args, err := sqlx.In("UPDATE orders SET state = 'expired' WHERE id IN (?) AND state = 'unpaid'", ids)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, query, args...)
		return err
	})
}

// What a handler does outside the database happens at least once. The task's id is the same in each try.
func ExampleHandleOutside() {
	spec := orderExpires.New("ada", expiry{OrderID: 42}, task.In(0))
	mux := worker.NewMux()
	worker.HandleOutside(mux, orderExpires, func(_ context.Context, t worker.Task[expiry]) error {
		fmt.Println("mail to", t.Owner, "about order", t.Payload.OrderID)
		fmt.Println("the id is the key that the mail server forgets duplicates by:", t.ID == spec.ID())
		return nil
	})
	workUntilReported(mux, spec)
	// Output:
	// mail to ada about order 42
	// the id is the key that the mail server forgets duplicates by: true
}

// A handler that can't act yet is called again later, and no attempt is charged.
func ExampleSnooze() {
	mux := worker.NewMux()
	worker.Handle(mux, orderExpires, func(context.Context, *worker.Tx, worker.Task[expiry]) error {
		return worker.Snooze(time.Hour) // the payment is under way
	})
	mux.OnEvent(func(_ context.Context, e worker.Event) {
		fmt.Println(e.Name, "after", e.Task.Attempt, "failed attempts")
	})
	workUntilReported(mux, orderExpires.New("ada", expiry{OrderID: 42}, task.In(0)))
	// Output: snoozed after 0 failed attempts
}

// A customer's API answers 429: none of the customer's other calls is tried until it takes some again, and all others go on.
func ExamplePauseKey() {
	mux := worker.NewMux()
	worker.HandleOutside(mux, orderExpires, func(_ context.Context, _ worker.Task[expiry]) error {
		return worker.PauseKey(time.Now().Add(time.Minute)) // as Retry-After says
	})
	mux.OnEvent(func(_ context.Context, e worker.Event) {
		fmt.Println(e.Name, "after", e.Task.Attempt, "failed attempts")
	})
	workUntilReported(mux, orderExpires.New("ada", expiry{OrderID: 42}, task.In(0)))
	// Output: snoozed after 0 failed attempts
}

// A handler that knows that trying again can't help ends the task; it is kept among the dead tasks.
func ExampleDiscard() {
	mux := worker.NewMux()
	worker.Handle(mux, orderExpires, func(context.Context, *worker.Tx, worker.Task[expiry]) error {
		return worker.Discard(errors.New("there is no such order"))
	})
	mux.OnEvent(func(_ context.Context, e worker.Event) { fmt.Println(e.Name, e.Task.State, e.Err) })
	workUntilReported(mux, orderExpires.New("ada", expiry{OrderID: 42}, task.In(0)))
	// Output: dead dead discarded: there is no such order
}
