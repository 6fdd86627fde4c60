package main

import (
	"context"
	"errors"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

const (
	idleLimit = time.Second // at which the server ends an idle transaction
	mailTime  = 2 * time.Second
)

// provoke registers handlers that the database server stops, by ending their connection or their statement.
func provoke(mux *worker.Mux, db *sqlx.DB) {
	handle := func(name string, statements ...string) {
		worker.Handle(mux, task.NewKind[nothing](name, soon), func(ctx context.Context, tx *worker.Tx, _ worker.Task[nothing]) error {
			return execAll(ctx, tx, statements)
		})
	}
	handle("chaos.cut", "KILL CONNECTION_ID()")
	handle("chaos.full",
		"CREATE TEMPORARY TABLE IF NOT EXISTS chaos_small (text CHAR(255)) ENGINE=MEMORY MAX_ROWS=100",
		"INSERT INTO chaos_small SELECT REPEAT('x', 255) FROM information_schema.columns a, information_schema.columns b")
	worker.Handle(mux, task.NewKind[nothing]("chaos.long", soon), func(ctx context.Context, tx *worker.Tx, _ worker.Task[nothing]) error {
		return runLong(ctx, tx)
	})
	worker.Handle(mux, task.NewKind[nothing]("chaos.idle", soon), func(ctx context.Context, tx *worker.Tx, _ worker.Task[nothing]) error {
		if err := execAll(ctx, tx, []string{"SET SESSION wait_timeout = 1"}); err != nil {
			return err
		}
		time.Sleep(idleLimit + idleLimit/2)
		return execAll(ctx, tx, []string{"DO 1"})
	})
	worker.HandleOutside(mux, task.NewKind[nothing]("chaos.mail", soon), func(ctx context.Context, t worker.Task[nothing]) error {
		return mail(ctx, db, t.ID)
	})
}

func execAll(ctx context.Context, tx *worker.Tx, statements []string) error {
	for _, statement := range statements {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// runLong runs a statement that the server stops after 0.1 s; MySQL and MariaDB name the limit differently.
func runLong(ctx context.Context, tx *worker.Tx) error {
	const long = "SELECT COUNT(*) FROM information_schema.columns a, information_schema.columns b, information_schema.columns c"
	var n int
	err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.system_variables WHERE variable_name = 'MAX_STATEMENT_TIME'").Scan(&n)
	if err != nil { // MySQL has no such table
		return tx.QueryRowContext(ctx, "SELECT /*+ MAX_EXECUTION_TIME(100) */"+long[len("SELECT"):]).Scan(&n)
	}
	return tx.QueryRowContext(ctx, "SET STATEMENT max_statement_time=0.1 FOR "+long).Scan(&n)
}

// mail acts outside its transaction, and ends all transactions that are as old as its own.
func mail(ctx context.Context, db *sqlx.DB, id task.ID) error {
	if _, err := db.ExecContext(ctx, `INSERT INTO chaos_mails (task_id) VALUES (?)`, id.String()); err != nil {
		return err
	}
	select {
	case <-time.After(mailTime):
	case <-ctx.Done():
		return ctx.Err()
	}
	threads, err := openForLong(ctx, db)
	if err != nil || len(threads) == 0 {
		return errors.Join(err, errors.New("found no transaction of its own"))
	}
	for _, thread := range threads {
		if _, err := db.ExecContext(ctx, "KILL ?", thread); err != nil {
			return err
		}
	}
	return nil
}

// openForLong returns the connections whose transactions are open for more than a second. MySQL refuses the whole answer (error 3854) while
// any connection runs a statement with bytes that are no text.
func openForLong(ctx context.Context, db *sqlx.DB) (threads []int64, err error) {
	for {
		err = db.SelectContext(ctx, &threads,
			`SELECT trx_mysql_thread_id FROM information_schema.innodb_trx WHERE trx_started <= NOW() - INTERVAL 1 SECOND`)
		if err == nil || ctx.Err() != nil {
			return threads, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}
