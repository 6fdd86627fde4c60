package main

import (
	"context"
	"database/sql"
	"strings"

	"github.com/duetime/duetime/bench/queue"
)

// insertRows writes the durable rows of jobs in one statement.
func insertRows(ctx context.Context, db *sql.DB, js []queue.Job) error {
	args := make([]any, 0, 2*len(js))
	for _, j := range js {
		args = append(args, j.ID, j.Due/1000)
	}
	values := strings.Repeat(",(?,?)", len(js))[1:]
	_, err := db.ExecContext(ctx, `INSERT INTO bench_tasks (id, due_at) VALUES `+values, args...) //nolint:gosec // placeholders alone
	return err
}
