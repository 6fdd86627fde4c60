package worker_test

import (
	"context"
	"time"

	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// A request and a handler share a function: both get the same Tx.
func ExampleTx() {
	closeOrder := func(ctx context.Context, tx *schedule.Tx, order int64) error {
		_, err := tx.ExecContext(ctx, "UPDATE orders SET state = 'closed' WHERE id = ?", order)
		if err != nil {
			return err
		}
		_, err = tx.Schedule(ctx, orderExpires.New("ada", expiry{OrderID: order}, task.In(24*time.Hour)))
		return err
	}

	mux := worker.NewMux()
	worker.Handle(mux, orderExpires, func(ctx context.Context, tx *worker.Tx, t worker.Task[expiry]) error {
		return closeOrder(ctx, tx, t.Payload.OrderID)
	})

	request := func(ctx context.Context, client *schedule.Client, order int64) error {
		return client.InTx(ctx, func(tx *schedule.Tx) error { return closeOrder(ctx, tx, order) })
	}
	_, _ = mux, request
}
