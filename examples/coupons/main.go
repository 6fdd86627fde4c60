// Command coupons shows a service on duetime that does much at once: it reminds owners a day before their coupons end,
// with one statement for a hundred reminders. Its own code is in coupons.go. Here it hands out three hundred coupons,
// extends some, and deletes those of one owner. It ends after that, because a day is shortened to a second.
//
//	go run ./examples/coupons                                          # on SQLite, in a temporary folder
//	go run ./examples/coupons --dsn 'user:password@tcp(127.0.0.1:3306)/shop'
//
// It runs its tasks in its own process (package embedded). On real servers, replace embedded.OpenMySQL by
// duetime.Open; all other code stays the same.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jmoiron/sqlx"
	"golang.org/x/sync/errgroup"
	_ "modernc.org/sqlite" // for OpenSQLite

	"github.com/duetime/duetime/pkg/embedded"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "coupons:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("coupons", flag.ContinueOnError)
	dsn := flags.String("dsn", "", "MySQL schema for the coupons and the tasks; empty: SQLite in a temporary folder")
	in := flags.Duration("in", 2*time.Second, "from when on owners are reminded")
	before := flags.Duration("before", time.Second, "how long before its end an owner is reminded of a coupon; a day in earnest")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "coupons-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	pipeline, err := open(ctx, *dsn, filepath.Join(dir, "coupons.db"))
	if err != nil {
		return err
	}
	defer func() { _ = pipeline.Close(context.WithoutCancel(ctx)) }()
	if err := createTable(ctx, pipeline.DB()); err != nil {
		return err
	}
	s := &show{db: pipeline.DB(), out: log.New(stdout, "", 0), in: *in}
	s.coupons = &Coupons{tasks: pipeline.Client, before: *before, called: s.count}
	return s.play(ctx, pipeline)
}

func open(ctx context.Context, dsn, file string) (*embedded.Pipeline, error) {
	cfg := embedded.Config{Logger: slog.New(slog.DiscardHandler), Queues: []string{CouponRemind.Info().Queue}}
	if dsn == "" {
		return embedded.OpenSQLite(ctx, file, cfg)
	}
	return embedded.OpenMySQL(ctx, dsn, cfg)
}

// createTable creates the service's own table, beside duetime's.
func createTable(ctx context.Context, db *sqlx.DB) error {
	_, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS coupons (
		id BIGINT PRIMARY KEY, owner VARCHAR(64) NOT NULL, ends_ms BIGINT NOT NULL, reminded INT NOT NULL)`)
	return err
}

// show is what main demonstrates.
type show struct {
	coupons *Coupons
	db      *sqlx.DB
	out     *log.Logger
	in      time.Duration // until the first reminder
	calls   atomic.Int64  // of the handler; some may have been rolled back and retried
}

func (s *show) count(int) { s.calls.Add(1) }

const (
	owners = 10
	each   = 30 // coupons of an owner
)

// play runs due tasks while the coupons are handed out and changed.
func (s *show) play(ctx context.Context, pipeline *embedded.Pipeline) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return pipeline.Work(ctx, s.coupons.Handlers()) })
	group.Go(func() error {
		defer stop()
		return s.run(ctx)
	})
	return group.Wait()
}

func (s *show) run(ctx context.Context) error {
	first := time.Now().UnixMilli() // a new range of numbers, in case the schema was used before
	coupons := make([]Coupon, owners*each)
	ends := time.Now().Add(s.in + s.coupons.before)
	for i := range coupons {
		owner := fmt.Sprintf("owner-%d-%d", first, i%owners)
		coupons[i] = Coupon{ID: first + int64(i), Owner: owner, EndsMs: ends.UnixMilli()}
	}
	if err := s.coupons.Grant(ctx, coupons); err != nil {
		return err
	}
	s.out.Printf("%d coupons handed out, to be reminded of in %v", len(coupons), s.in)
	for i := 1; i <= 5; i++ {
		if err := s.coupons.Extend(ctx, coupons[i], time.Second); err != nil {
			return err
		}
	}
	s.out.Println("5 of them extended by 1s")
	cancelled, err := s.coupons.Leave(ctx, coupons[0].Owner)
	if err != nil {
		return err
	}
	s.out.Printf("one owner left, %d reminders taken back", cancelled)
	return s.await(ctx, first)
}

// await prints the number of reminded owners whenever it grows, until all are reminded.
func (s *show) await(ctx context.Context, first int64) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for last := 0; ; {
		var n struct {
			All   int `db:"n"`
			Once  int `db:"once"`
			Twice int `db:"twice"`
		}
		err := s.db.GetContext(ctx, &n, `SELECT COUNT(*) AS n, COALESCE(SUM(reminded > 0), 0) AS once,
			COALESCE(SUM(reminded > 1), 0) AS twice FROM coupons WHERE id >= ?`, first)
		if err != nil {
			return err
		}
		if n.Once > last {
			s.out.Printf("reminded of %d of %d coupons", n.Once, n.All)
		}
		if last = n.Once; n.Once == n.All {
			s.out.Printf("all done in %d statements, reminded twice: %d", s.calls.Load(), n.Twice)
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
