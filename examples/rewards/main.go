// Command rewards shows recurring tasks of a service: a daily reward for each player in the player's zone, and a weekly
// report. Its own code is in rewards.go. Here three players join, one moves, one leaves. It ends after that, because a
// day is shortened to two seconds, and a week to four.
//
//	go run ./examples/rewards                                          # on SQLite, in a temporary folder
//	go run ./examples/rewards --dsn 'user:password@tcp(127.0.0.1:3306)/game'
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
		fmt.Fprintln(os.Stderr, "rewards:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("rewards", flag.ContinueOnError)
	dsn := flags.String("dsn", "", "MySQL schema for the players and the tasks; empty: SQLite in a temporary folder")
	day := flags.String("day", "*/2 * * * * *", `when a reward is due, in the player's zone; "0 8 * * *" in earnest`)
	week := flags.String("week", "*/4 * * * * *", `when a report is due, in UTC; "0 9 * * MON" in earnest`)
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rewards-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	pipeline, err := open(ctx, *dsn, filepath.Join(dir, "rewards.db"))
	if err != nil {
		return err
	}
	defer func() { _ = pipeline.Close(context.WithoutCancel(ctx)) }()
	if err := createTables(ctx, pipeline.DB()); err != nil {
		return err
	}
	rewards := &Rewards{tasks: pipeline.Client, rewardAt: *day, reportAt: *week}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return pipeline.Work(ctx, rewards.Handlers()) })
	group.Go(func() error {
		defer stop()
		return show(ctx, rewards, pipeline.DB(), log.New(stdout, "", 0))
	})
	return group.Wait()
}

func open(ctx context.Context, dsn, file string) (*embedded.Pipeline, error) {
	cfg := embedded.Config{Logger: slog.New(slog.DiscardHandler)}
	if dsn == "" {
		return embedded.OpenSQLite(ctx, file, cfg)
	}
	return embedded.OpenMySQL(ctx, dsn, cfg)
}

// createTables creates the service's own tables, beside duetime's.
func createTables(ctx context.Context, db *sqlx.DB) error {
	for _, statement := range []string{
		"CREATE TABLE IF NOT EXISTS players (name VARCHAR(64) PRIMARY KEY, zone VARCHAR(64) NOT NULL, coins INT NOT NULL)",
		"CREATE TABLE IF NOT EXISTS reports (at_ms BIGINT PRIMARY KEY, coins INT NOT NULL)",
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// show is what main demonstrates.
func show(ctx context.Context, rewards *Rewards, db *sqlx.DB, out *log.Logger) error {
	if err := rewards.Open(ctx); err != nil {
		return err
	}
	for player, zone := range map[string]string{"ann": "Asia/Shanghai", "bob": "America/Sao_Paulo", "cyd": "Europe/Berlin"} {
		if _, err := rewards.Join(ctx, player, zone); err != nil {
			return err
		}
	}
	out.Println("3 players joined")
	if _, err := rewards.Join(ctx, "dan", "Mars/Olympus"); err != nil {
		out.Println("another one did not:", err)
	}
	if err := rewards.Move(ctx, "bob", "Pacific/Apia"); err != nil {
		return err
	}
	if err := rewards.Leave(ctx, "cyd"); err != nil {
		return err
	}
	out.Println("one moved, one left")
	for {
		var n struct {
			Rewarded int `db:"rewarded"`
			Reports  int `db:"reports"`
		}
		err := db.GetContext(ctx, &n, "SELECT COUNT(*) AS rewarded, (SELECT COUNT(*) FROM reports) AS reports FROM players WHERE coins >= 10")
		if err != nil {
			return err
		}
		if n.Rewarded == 2 && n.Reports >= 1 {
			out.Printf("%d players were rewarded twice and more, %d report is written", n.Rewarded, min(n.Reports, 1))
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond): // the pace of looks
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
