package embedded_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // for OpenSQLite

	"github.com/duetime/duetime/pkg/embedded"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Coupon is the payload of a task that ends a coupon.
type Coupon struct {
	ID int64 `json:"id"`
}

// CouponExpire is declared once, for the code that schedules and for the code that runs.
var CouponExpire = task.NewKind[Coupon]("coupon.expire")

// A coupon and its end commit together; the end's effect and its mark "done" too.
func Example() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	dir, err := os.MkdirTemp("", "duetime-example-")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	p, err := embedded.OpenSQLite(ctx, filepath.Join(dir, "shop.db"), embedded.Config{Logger: slog.New(slog.DiscardHandler)})
	check(err)
	defer func() { check(p.Close(context.Background())) }()
	_, err = p.DB().ExecContext(ctx, "CREATE TABLE coupons (id INTEGER PRIMARY KEY, state TEXT)")
	check(err)

	err = p.InTx(ctx, func(tx *schedule.Tx) error {
		if _, err := tx.Schedule(ctx, CouponExpire.New("ada", Coupon{ID: 7}, task.In(100*time.Millisecond))); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO coupons (id, state) VALUES (7, 'open')")
		return err
	})
	check(err)

	mux := worker.NewMux()
	worker.Handle(mux, CouponExpire, func(ctx context.Context, tx *worker.Tx, t worker.Task[Coupon]) error {
		_, err := tx.ExecContext(ctx, "UPDATE coupons SET state = 'expired' WHERE id = ? AND state = 'open'", t.Payload.ID)
		return err
	})
	mux.OnEvent(func(context.Context, worker.Event) { stop() }) // a service works until a signal
	check(p.Work(ctx, mux))

	var state string
	check(p.DB().GetContext(context.Background(), &state, "SELECT state FROM coupons WHERE id = 7"))
	fmt.Println(state)
	// Output: expired
}

// Order is the payload of Expire.
type Order struct {
	ID int64 `json:"id"`
}

// Expire has a queue of its own, which Config names.
var Expire = task.NewKind[Order]("order.expire", task.Queue("orders"), task.MaxAttempts(10))

// A service works until it gets a signal. docs/GUIDE.md shows these lines.
func ExamplePipeline_Work() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p, err := embedded.OpenMySQL(ctx, "user:password@tcp(127.0.0.1:3306)/shop", embedded.Config{Queues: []string{"orders"}})
	check(err)
	defer func() { _ = p.Close(context.WithoutCancel(ctx)) }()

	mux := worker.NewMux()
	worker.Handle(mux, Expire, func(ctx context.Context, tx *worker.Tx, t worker.Task[Order]) error {
		_, err := tx.ExecContext(ctx, "UPDATE orders SET state = 'expired' WHERE id = ? AND state = 'open'", t.Payload.ID)
		return err
	})
	err = p.Work(ctx, mux) // until ctx ends, then drains
	check(err)
}

// On the service's own MySQL one process needs no other server.
func ExampleOpenMySQL() {
	ctx := context.Background()
	p, err := embedded.OpenMySQL(ctx, "user:password@tcp(127.0.0.1:3306)/shop", embedded.Config{})
	check(err) // MySQL must answer: try again later if it doesn't
	defer func() { check(p.Close(ctx)) }()

	_, err = p.Schedule(ctx, CouponExpire.New("ada", Coupon{ID: 7}, task.In(24*time.Hour), task.Key("7")))
	check(err)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
