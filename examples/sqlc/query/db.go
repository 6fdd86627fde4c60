// Package query has the form in which sqlc writes query.sql; sqlc.yaml says how it is called.
package query

import (
	"context"
	"database/sql"
)

// DBTX is what a *sql.DB, a *sql.Tx and a *schedule.Tx have in common.
type DBTX interface {
	ExecContext(context.Context, string, ...interface{}) (sql.Result, error)
	PrepareContext(context.Context, string) (*sql.Stmt, error)
	QueryContext(context.Context, string, ...interface{}) (*sql.Rows, error)
	QueryRowContext(context.Context, string, ...interface{}) *sql.Row
}

// New makes the queries run on db.
func New(db DBTX) *Queries {
	return &Queries{db: db}
}

// Queries are those of query.sql.
type Queries struct {
	db DBTX
}
