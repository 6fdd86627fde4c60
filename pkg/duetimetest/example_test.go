package duetimetest_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite" // or the driver of your MySQL

	"github.com/duetime/duetime/pkg/duetimetest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Order is the payload of a task that ends an order which nobody has paid.
type Order struct {
	ID int64 `json:"id"`
}

// OrderExpire is declared once, for the code that schedules and for the code that runs.
var OrderExpire = task.NewKind[Order]("shop.order_expire")

// PlaceOrder is code of a service.
func PlaceOrder(ctx context.Context, client *schedule.Client, customer string, id int64) error {
	return client.InTx(ctx, func(tx *schedule.Tx) error {
		if _, err := tx.Schedule(ctx, OrderExpire.New(customer, Order{ID: id}, task.In(10*time.Minute))); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO orders (id, state) VALUES (?, 'open')", id)
		return err
	})
}

// Handlers are code of the service too.
func Handlers() *worker.Mux {
	mux := worker.NewMux()
	worker.Handle(mux, OrderExpire, func(ctx context.Context, tx *worker.Tx, t worker.Task[Order]) error {
		_, err := tx.ExecContext(ctx, "UPDATE orders SET state = 'expired' WHERE id = ? AND state = 'open'", t.Payload.ID)
		return err
	})
	return mux
}

// unpaidOrderExpires would be TestUnpaidOrderExpires in a test file of the service.
func unpaidOrderExpires(t *testing.T) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "shop.db")+"?_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	duetimetest.Migrate(t, db)
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT)"); err != nil {
		t.Fatal(err)
	}

	if err := PlaceOrder(t.Context(), duetimetest.Client(t, db), "ada", 42); err != nil {
		t.Fatal(err)
	}
	duetimetest.RequireScheduled(t, db, OrderExpire, "ada", duetimetest.DueIn(10*time.Minute, time.Minute))
	duetimetest.Fire(t, db, Handlers(), time.Now().Add(11*time.Minute)) // without waiting

	var state string
	if err := db.QueryRowContext(t.Context(), "SELECT state FROM orders WHERE id = 42").Scan(&state); err != nil || state != "expired" {
		t.Errorf("the order is %s (%v), want expired", state, err)
	}
}

// A test of a service places an order, checks that its end is scheduled, and fires it.
func Example() {
	var t *testing.T // of the test function
	unpaidOrderExpires(t)
}
