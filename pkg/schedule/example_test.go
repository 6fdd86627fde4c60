package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/migrations"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// Expire is the payload of a task that ends an unpaid order.
type Expire struct {
	Order int64 `json:"order"`
}

// OrderExpire is declared once, for the side that schedules and the side that runs.
var OrderExpire = task.NewKind[Expire]("order.expire", task.MaxAttempts(10))

// nowhere is an index and a compensator that keep nothing.
type nowhere struct{}

func (nowhere) Put(context.Context, []task.Task) error                  { return nil }
func (nowhere) Compensate(context.Context, protocol.Compensation) error { return nil }

func (nowhere) OwnerPage(context.Context, int, string, string, string, int) ([]protocol.Entry, string, string, error) {
	return nil, "", "", nil // it has no memory: lists come from the database
}

// shop opens a client beside a table of orders.
func shop() (client *schedule.Client, s *store.Store, closing func()) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "duetime-example-")
	check(err)
	s, err = store.OpenSQLite(filepath.Join(dir, "shop.db"))
	check(err)
	check(s.Migrate(ctx, migrations.Files, "shop", 16))
	_, err = s.DB().ExecContext(ctx, "CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT, expiry BLOB)")
	check(err)
	client, err = schedule.New(schedule.Config{}, s, nowhere{}, nowhere{})
	check(err)
	return client, s, func() {
		client.Close(ctx)
		check(s.Close())
		check(os.RemoveAll(dir))
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleClient_InTx() {
	client, _, closing := shop()
	defer closing()
	ctx := context.Background()

	var expiry task.Task
	err := client.InTx(ctx, func(tx *schedule.Tx) (err error) {
		spec := OrderExpire.New("customer-7", Expire{Order: 42}, task.In(10*time.Minute), task.Subject("42"))
		if expiry, err = tx.Schedule(ctx, spec); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO orders (id, state, expiry) VALUES (42, 'unpaid', ?)", expiry.ID[:])
		return err
	})
	if errors.Is(err, schedule.ErrCommitUnknown) {
		fmt.Println("look whether order 42 exists before trying again")
	}
	check(err)
	fmt.Println(expiry.State, expiry.DueAt.Sub(expiry.CreatedAt))
	// Output: pending 10m0s
}

func ExampleClient_Join() {
	client, s, closing := shop()
	defer closing()
	ctx := context.Background()

	tx, err := s.DB().BeginTx(ctx, nil) // the service's own handle and transaction
	check(err)
	defer func() { _ = tx.Rollback() }() // does nothing after the commit

	joined := client.Join(tx)
	expiry, err := joined.Schedule(ctx, OrderExpire.New("customer-7", Expire{Order: 42}, task.In(10*time.Minute)))
	check(err)
	_, err = tx.ExecContext(ctx, "INSERT INTO orders (id, state, expiry) VALUES (42, 'unpaid', ?)", expiry.ID[:])
	check(err)
	check(joined.Commit(ctx)) // instead of tx.Commit

	listed, source, err := client.TasksFromDB(ctx, "customer-7", OrderExpire.Name())
	check(err)
	fmt.Println(len(listed), source)
	// Output: 1 db
}

// A task is changed before the business row is locked, in the order in which the worker locks.
func ExampleTx_Cancel() {
	client, _, closing := shop()
	defer closing()
	ctx := context.Background()
	expiry, err := client.Schedule(ctx, OrderExpire.New("customer-7", Expire{Order: 42}, task.In(10*time.Minute)))
	check(err)

	pay := func(tx *schedule.Tx) error {
		_, err := tx.Cancel(ctx, expiry.ID)
		if errors.Is(err, task.ErrFinished) {
			return errors.New("too late, the order has expired")
		}
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE orders SET state = 'paid' WHERE id = 42")
		return err
	}
	fmt.Println(client.InTx(ctx, pay))
	fmt.Println(client.InTx(ctx, pay))
	// Output:
	// <nil>
	// too late, the order has expired
}

// Export is the payload of a task that exports a document.
type Export struct {
	Version int `json:"version"`
}

var DocumentExport = task.NewKind[Export]("document.export")

// Debounce: each change of a document puts its export off, and the export has the data of the last change.
func Example_debounce() {
	client, _, closing := shop()
	defer closing()
	ctx := context.Background()

	for version := range 3 {
		spec := DocumentExport.New("customer-7", Export{Version: version}, task.In(time.Minute), task.KeyReplace("document 42"))
		export, err := client.Schedule(ctx, spec)
		check(err)
		fmt.Println(spec.Outcome(export), string(export.Payload), "in", export.DueAt.Sub(export.UpdatedAt))
	}
	// Output:
	// made {"version":0} in 1m0s
	// replaced {"version":1} in 1m0s
	// replaced {"version":2} in 1m0s
}

// Throttle: a customer gets one export in each year, whatever becomes of it.
func Example_throttle() {
	client, _, closing := shop()
	defer closing()
	ctx := context.Background()

	for version := range 2 {
		spec := DocumentExport.New("customer-7", Export{Version: version}, task.In(0), task.Window("all", 365*24*time.Hour))
		export, err := client.Schedule(ctx, spec)
		check(err)
		fmt.Println(spec.Outcome(export), string(export.Payload))
	}
	// Output:
	// made {"version":0}
	// kept {"version":0}
}

func ExampleClient_Shift() {
	client, _, closing := shop()
	defer closing()
	ctx := context.Background()
	expiry, err := client.Schedule(ctx, OrderExpire.New("customer-7", Expire{Order: 42}, task.In(10*time.Minute)))
	check(err)

	later, err := client.Shift(ctx, expiry.ID, 5*time.Minute)
	check(err)
	fmt.Println(later.DueAt.Sub(expiry.DueAt), later.Version)

	moved, err := client.Reschedule(ctx, expiry.ID, task.At(expiry.DueAt))
	check(err)
	fmt.Println(moved.DueAt.Sub(expiry.DueAt), moved.Version)
	// Output:
	// 5m0s 2
	// 0s 3
}
