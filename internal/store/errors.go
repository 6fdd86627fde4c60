package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
	"modernc.org/sqlite"

	"github.com/duetime/duetime/internal/trust"
	"github.com/duetime/duetime/pkg/task"
)

// ErrNoSchema says that the schema has no tables of ours yet, or no layout: migrate first.
var ErrNoSchema = errors.New("duetime's tables are missing, run duetime migrate up")

// ErrOldSchema matches the answer for a schema that was made by an older version than this one.
var ErrOldSchema = errors.New("duetime's tables are older than this program, run duetime migrate up")

// ErrNamespace says that the schema belongs to another namespace.
var ErrNamespace = errors.New("schema belongs to another namespace")

// ErrConflict matches the answer to a write over rows that are not as the caller read them. The transaction must be
// rolled back; it may be tried again.
var ErrConflict = errors.New("task changed in between")

// conflictError is ErrConflict with its numbers.
type conflictError struct{ got, want int64 }

func (e *conflictError) Error() string {
	return fmt.Sprintf("%v: %d of %d rows were as read", ErrConflict, e.got, e.want)
}
func (e *conflictError) Unwrap() error   { return ErrConflict }
func (e *conflictError) Retryable() bool { return true }

// Codes of the servers. MariaDB's differ from MySQL's only above 1900.
var (
	lostTx  = []uint16{1020, 1205, 1206} // record changed, lock wait timeout, lock table full; and SQLSTATE class 40
	refused = []uint16{
		1044, 1045, 1130, 1142, 1143, 1227, 1251, 1524, 1698, // rights, passwords, plugins
		1820, 1862, 3118, 4151, // expired or locked accounts
	}
	full = []uint16{1021, 1026, 1114} // no room on the disk, by whichever layer finds out
	away = []uint16{
		1040, 1047, 1049, 1053, 1129, 1203, 1226, // connections used up, not ready, no such schema yet, stopping, blocked, limits
		1290, 1792, 1836, // read-only
		1927, 3032, 3169, 4031, // connection killed, offline mode, session killed, session idle for too long
	}
	// undone are answers to a COMMIT with which the server says that it has rolled back: record changed, lock wait timeout, lock
	// table full, read-only, and a cluster's refusal before the commit; and SQLSTATE class 40. All others, also those of a
	// proxy, may come after the commit took effect.
	undone = []uint16{1020, 1205, 1206, 1290, 1792, 1836, 3100, 3101}
	// unmade are answers to a statement that was its own transaction with which the server says that it did nothing: it could
	// not be understood, or its values or the caller's rights did not do. The classes of SQLSTATE in unmadeClasses say so too.
	unmade        = []uint16{1021, 1114, 1153, 1175, 1364, 1366, 1526, 1665, 1969, 3024, 3819}
	unmadeClasses = []string{"21", "22", "23", "42"}
)

// needsTLS is what MySQL says under require_secure_transport; MariaDB says that access is denied.
const needsTLS = 3159

// SQLite's primary result codes.
const (
	sqliteBusy      = 5
	sqliteLocked    = 6
	sqliteNoMem     = 7
	sqliteReadOnly  = 8
	sqliteInterrupt = 9
	sqliteIOErr     = 10
	sqliteFull      = 13
	sqliteCantOpen  = 14
	sqliteUnique    = 2067 // an extended one
)

func sqliteCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return -1
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// endsTx reports whether the server may have rolled the transaction back with this answer, or will because the
// connection is gone.
func endsTx(err error) bool {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return slices.Contains(lostTx, e.Number) || isFull(err) || strings.HasPrefix(string(e.SQLState[:]), "40")
	}
	switch sqliteCode(err) {
	case sqliteBusy, sqliteLocked, sqliteNoMem, sqliteInterrupt, sqliteIOErr, sqliteFull:
		return true
	}
	return isContext(err) || lostConn(err) || errors.Is(err, errReadOnly)
}

func lostConn(err error) bool {
	if isContext(err) {
		return false // context.DeadlineExceeded is a net.Error by its methods
	}
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// IsRefused reports that the server answered and will not let us in or do this with these credentials, or that we don't
// believe the server. Waiting does not help.
func IsRefused(err error) bool { return Refusal(err) != nil }

// Refusal returns an error that retrying cannot fix with the name of the key to look at; nil for all other errors.
func Refusal(err error) error {
	e, answered := errors.AsType[*mysql.MySQLError](err)
	switch {
	case isNamed(err):
		return err
	case trust.Refused(err), errors.Is(err, mysql.ErrNoTLS), answered && e.Number == needsTLS:
		return &trust.Refusal{Key: "mysql.tls.ca_file", Err: err}
	case answered && slices.Contains(refused, e.Number):
		return &trust.Refusal{Key: "mysql.dsn", Err: err}
	}
	return nil
}

// isNamed reports whether a connection was not even made, by a refusal.
func isNamed(err error) bool {
	_, named := errors.AsType[*trust.Refusal](err)
	return named
}

// Retryable reports that the transaction did not commit and the same transaction may succeed when run again: deadlock,
// lock wait, ErrConflict, ErrPoisoned, or a connection lost before the COMMIT was sent. For an error of COMMIT itself
// ask Ambiguous first.
func (s *Store) Retryable(err error) bool {
	if err == nil || s.ambiguousMark(err) {
		return false
	}
	if r, ok := errors.AsType[interface {
		error
		Retryable() bool
	}](err); ok {
		return r.Retryable()
	}
	return !isContext(err) && endsTx(err) && !isDial(err) && !isFull(err)
}

// isDuplicate reports whether a row was refused because a unique key is taken.
func isDuplicate(err error) bool {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number == duplicateEntry
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && e.Code() == sqliteUnique
}

// isFull reports whether a statement found no room on the disk: trying again at once does not help.
func isFull(err error) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && slices.Contains(full, e.Number)
}

// isReadOnly reports whether the server refused a statement because it can only be read, whatever the transaction is.
func isReadOnly(err error) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && (e.Number == 1836 || e.Number == 1290 && strings.Contains(e.Message, "read-only"))
}

// closed names the error of a handle that was closed before anything was sent: database/sql has only a text for it.
func closed(err error) error {
	if err == nil || !strings.Contains(err.Error(), "sql: database is closed") {
		return err
	}
	return fmt.Errorf("%w: %w", task.ErrClosed, err)
}

func isDial(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial" || isNamed(err)
}

func (s *Store) ambiguousMark(err error) bool {
	_, ok := errors.AsType[*commitError](err)
	return ok
}

// Ambiguous reports, for an error returned by COMMIT, that nobody can tell whether it took effect. It is false only
// where the server or the driver refused beyond doubt.
func (s *Store) Ambiguous(err error) bool {
	if err == nil {
		return false
	}
	// database/sql returns the bare error of a context that ended before it sent anything.
	return s.ambiguousMark(err) || !refusedCommit(err) && !isContext(err)
}

// refusedCommit reports whether a COMMIT certainly did not take effect. What isn't known as a refusal is none.
func refusedCommit(err error) bool {
	if errors.Is(err, ErrPoisoned) || errors.Is(err, sql.ErrTxDone) || errors.Is(err, driver.ErrBadConn) ||
		errors.Is(err, task.ErrClosed) {
		return true
	}
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return slices.Contains(undone, e.Number) || strings.HasPrefix(string(e.SQLState[:]), "40")
	}
	code := sqliteCode(err)
	return code >= 0 && code != sqliteIOErr
}

// refusedAlone is refusedCommit for a statement that was its own transaction.
func refusedAlone(err error) bool {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return refusedCommit(err) || slices.Contains(unmade, e.Number) || slices.Contains(unmadeClasses, string(e.SQLState[:2]))
	}
	return refusedCommit(err)
}

// Unavailable reports that the database can't be reached or can't write now: wait and come back.
func (s *Store) Unavailable(err error) bool {
	if err == nil {
		return false
	}
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return slices.Contains(away, e.Number) || isFull(err)
	}
	switch sqliteCode(err) {
	case sqliteReadOnly, sqliteIOErr, sqliteFull, sqliteCantOpen:
		return true
	}
	return lostConn(err) || isNamed(err) || errors.Is(err, errReadOnly) || errors.Is(err, sql.ErrConnDone)
}

// IsNoDatabase reports that the server answered, and has no schema of the name that the DSN says. Processes wait for it, as
// for one that is about to be made.
func IsNoDatabase(err error) bool {
	e, answered := errors.AsType[*mysql.MySQLError](err)
	return answered && e.Number == 1049
}

// noTable reports whether a statement failed because migrate has not run.
func noTable(err error) bool {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number == 1146
	}
	return sqliteCode(err) == 1 && strings.Contains(err.Error(), "no such table")
}
