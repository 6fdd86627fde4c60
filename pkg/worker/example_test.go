package worker_test

import (
	"context"

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
