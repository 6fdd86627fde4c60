package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// This file closes a race:
//
//  1. The primary is switched over: it becomes read-only and lives on, another server is promoted, and the name in the DSN
//     points to the new primary.
//  2. The connections of a pool stay with the server to which they were made. Writes fail there, and the driver closes the
//     connection; but a caller that only reads goes on reading rows that no longer change.
//  3. The daemon "repairs" the index by those rows, a worker drops the hint of a task whose row it does not see, and an index
//     write after a commit finds nothing committed.
//
// So a statement that decides something also reads, in the same round trip, whether its server may be written. If not, it
// returns errReadOnly, and all connections made until then are closed when they are taken from the pool. New connections
// go to the server to which the name points by then.

// errReadOnly says that this server's rows are not the truth, or will soon no longer be.
var errReadOnly = errors.New("server is read-only: a replica, or a primary that was replaced")

// state is the expression of a server's state, which is read in the first column; conn.QueryContext recognizes a
// statement that begins with it. From version 12 on, MariaDB returns a word instead of a number. A server whose InnoDB is
// read-only is a replica of Aurora.
func (d Dialect) state() string {
	if d == SQLite {
		return "'00'"
	}
	return "CONCAT(@@global.read_only, @@global.innodb_read_only)"
}

var statePrefix = "SELECT " + MySQL.state()

// stateThen begins a SELECT whose first column is the server's state.
func (d Dialect) stateThen(columns string) string { return "SELECT " + d.state() + ", " + columns }

// writable is a scan destination for the server's state.
type writable struct{}

// Scan returns errReadOnly unless the server may be written.
func (writable) Scan(state any) error {
	var text string
	switch s := state.(type) {
	case []byte:
		text = string(s)
	case string:
		text = s
	}
	switch text {
	case "00", "OFF0", "OFFOFF":
		return nil
	}
	return errReadOnly
}

// queryPrimary reads one row of these expressions from a server that may be written.
func (s *Store) queryPrimary(ctx context.Context, q sqlx.QueryerContext, expressions string, args []any, dest ...any) error {
	return s.handle(q).QueryRowxContext(ctx, s.dialect.stateThen(expressions), args...).Scan(append([]any{writable{}}, dest...)...)
}

// checkPrimary returns errReadOnly if a transaction may have found nothing because its server is no longer the primary.
func (s *Store) checkPrimary(ctx context.Context, q sqlx.QueryerContext) error {
	if err := s.queryPrimary(ctx, q, "1", nil, new(int)); err != nil {
		return fmt.Errorf("check that this is the primary: %w", err)
	}
	return nil
}

// readPrimary reads the rows of a SELECT with a LIMIT from a server that may be written. The server's state is a row of
// its own before them: it is checked even if there are no rows.
func (s *Store) readPrimary(ctx context.Context, of selection, text string, args []any) ([]task.Task, error) {
	scanRow := of.scanner()
	if s.dialect == SQLite {
		return s.read(ctx, nil, scanRow, "SELECT "+of.list+text, args)
	}
	checked := false
	scan := func(r *sqlx.Rows) (task.Task, error) {
		if checked {
			return scanRow(r)
		}
		checked = true
		state, err := r.SliceScan()
		if err == nil {
			err = writable{}.Scan(state[0])
		}
		return task.Task{}, err
	}
	nulls := strings.Repeat(", NULL", len(of.columns)-1)
	tasks, err := s.read(ctx, nil, scan, statePrefix+nulls+" UNION ALL (SELECT "+of.list+text+")", args)
	if err != nil || len(tasks) == 0 {
		return nil, err
	}
	return tasks[1:], nil
}
