package store

import (
	"errors"
	"slices"

	"github.com/go-sql-driver/mysql"

	"github.com/duetime/duetime/internal/trust"
)

// missetCodes are what a server answers to a parameter of the DSN that it doesn't know, or whose value it doesn't take: a
// charset, a system variable, a time zone (also where its tables of zones were never loaded).
var missetCodes = []uint16{1115, 1193, 1229, 1231, 1232, 1238, 1273, 1298}

// misset returns the error of a connection that failed over a parameter of the DSN, with the key to look at; nil for all
// others. Waiting does not help: each connection would fail alike.
func misset(err error) error {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok && slices.Contains(missetCodes, e.Number) {
		return &trust.Refusal{Key: "mysql.dsn", Err: err}
	}
	return nil
}
