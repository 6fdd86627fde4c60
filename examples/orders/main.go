// Command orders shows a service on duetime: an order that isn't paid within ten minutes expires. Its own code is in
// shop.go. Here it plays five orders and then ends, because ten minutes are shortened to two seconds.
//
//	go run ./examples/orders                                          # on SQLite, in a temporary folder
//	go run ./examples/orders --dsn 'user:password@tcp(127.0.0.1:3306)/shop'
//
// It runs its tasks in its own process (package embedded). On real servers, replace embedded.OpenMySQL by
// duetime.Open; the shop stays the same.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	_ "modernc.org/sqlite" // for OpenSQLite

	"github.com/duetime/duetime/pkg/embedded"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "orders:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("orders", flag.ContinueOnError)
	dsn := flags.String("dsn", "", "MySQL schema for the orders and the tasks; empty: SQLite in a temporary folder")
	paymentTimeout := flags.Duration("pay-within", 2*time.Second, "after which an unpaid order expires; ten minutes in earnest")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "orders-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	pipeline, err := open(ctx, *dsn, filepath.Join(dir, "orders.db"))
	if err != nil {
		return err
	}
	defer func() { _ = pipeline.Close(context.WithoutCancel(ctx)) }()
	if err := createTable(ctx, pipeline.DB().DB); err != nil {
		return err
	}
	shop := &Shop{db: pipeline.DB().DB, tasks: pipeline.Client, paymentTimeout: *paymentTimeout}
	return play(ctx, pipeline, shop, log.New(stdout, "", 0))
}

func open(ctx context.Context, dsn, file string) (*embedded.Pipeline, error) {
	cfg := embedded.Config{Logger: slog.New(slog.DiscardHandler)}
	if dsn == "" {
		return embedded.OpenSQLite(ctx, file, cfg)
	}
	return embedded.OpenMySQL(ctx, dsn, cfg)
}

// createTable creates the shop's own table, beside duetime's.
func createTable(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS orders (
		id BIGINT PRIMARY KEY, customer VARCHAR(64) NOT NULL, state VARCHAR(16) NOT NULL, expiry CHAR(36) NOT NULL)`)
	return err
}

// play runs due tasks while the customers order and pay.
func play(ctx context.Context, pipeline *embedded.Pipeline, shop *Shop, out *log.Logger) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return pipeline.Work(ctx, shop.Handlers()) })
	group.Go(func() error {
		defer stop()
		return customers(ctx, shop, out)
	})
	return group.Wait()
}

// customers place five orders. They pay two in time, and one too late.
func customers(ctx context.Context, shop *Shop, out *log.Logger) error {
	first := time.Now().UnixMilli() // a new range of numbers, in case the schema was used before
	for n := range int64(5) {
		if err := shop.Place(ctx, first+n, fmt.Sprint("customer-", n)); err != nil {
			return err
		}
		out.Printf("order %d placed, to be paid within %v", n, shop.paymentTimeout)
	}
	for _, n := range []int64{1, 3} {
		if err := shop.Pay(ctx, first+n); err != nil {
			return err
		}
		out.Printf("order %d paid", n)
	}
	began := time.Now()
	if err := awaitNoneUnpaid(ctx, shop.db, first); err != nil {
		return err
	}
	out.Printf("none unpaid after %v", time.Since(began).Round(100*time.Millisecond))
	if err := shop.Pay(ctx, first+2); err == nil {
		return errors.New("order 2 was paid after it had expired")
	} else if !errors.Is(err, ErrExpired) {
		return err
	}
	out.Printf("order 2 paid too late: %v\n\n", ErrExpired)
	return list(ctx, shop.db, first, out)
}

func awaitNoneUnpaid(ctx context.Context, db *sql.DB, first int64) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		var n int
		if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM orders WHERE id >= ? AND state = 'unpaid'", first).Scan(&n); err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func list(ctx context.Context, db *sql.DB, first int64, out *log.Logger) error {
	rows, err := db.QueryContext(ctx, "SELECT id, customer, state FROM orders WHERE id >= ? ORDER BY id", first)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // reading to the end closed it
	out.Println("order  customer    state")
	for rows.Next() {
		var id int64
		var customer, state string
		if err := rows.Scan(&id, &customer, &state); err != nil {
			return err
		}
		out.Printf("%5d  %-10s  %s", id-first, customer, state)
	}
	return rows.Err()
}
