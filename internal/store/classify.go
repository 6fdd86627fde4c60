package store

import (
	"cmp"
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

	"github.com/duetime/duetime/internal/trust"
	"github.com/duetime/duetime/pkg/task"
)

// Class tells a caller how to handle an error. Every error has exactly one class.
type Class int

// The classes.
const (
	Other       Class = iota // nil, or an error of no other class: a retry fails in the same way
	Retryable                // nothing was committed: run the whole transaction again (deadlock, lock wait, ErrConflict)
	Lost                     // as Retryable, and the database may be away: the connection broke before the COMMIT was sent
	Unavailable              // the database can't be reached, or answers that it can't serve now: wait
	Full                     // the server's disk is full: wait
	ReadOnly                 // the server refuses every write: wait for the next connection, which may reach the new primary
	NoDatabase               // the server has no schema of the DSN's name: wait until it is created
	NoTable                  // the schema has no such table: migrate has not run
	Refused                  // the server refuses the credentials or the right: waiting does not help
	Untrusted                // no connection: we don't trust the server, or it doesn't speak TLS. Waiting does not help
	BadSetting               // the server refuses a parameter of the DSN, or a statement's variable
	Duplicate                // a unique key is taken
	Canceled                 // the caller's context ended
	Ambiguous                // we cannot tell whether the COMMIT, or the autocommit statement, took effect
)

// Retryable reports whether the transaction did not commit and may commit if it is run again at once.
func (c Class) Retryable() bool { return c == Retryable || c == Lost }

// Away reports whether the database can't be reached or can't write now: wait and try again.
func (c Class) Away() bool {
	switch c {
	case Lost, Unavailable, Full, ReadOnly, NoDatabase, Untrusted:
		return true
	}
	return false
}

// Refused reports whether retrying fails until somebody changes a credential, a right or a certificate.
func (c Class) Refused() bool { return c == Refused || c == Untrusted }

// endsTx reports whether the server may have rolled the transaction back, or will because the connection broke.
func (c Class) endsTx() bool { return c.Retryable() || c == Full || c == Canceled || c == Untrusted }

// Classify returns the class of an error. A Retryable method of any error in the chain counts. Use ClassifyCommit for an
// error of COMMIT itself.
func Classify(err error) Class {
	if err == nil {
		return Other
	}
	if _, marked := errors.AsType[*ambiguousError](err); marked {
		return Ambiguous
	}
	class := classOf(err)
	retry := !isContext(err)
	own, hasOwn := errors.AsType[interface {
		error
		Retryable() bool
	}](err)
	if hasOwn {
		retry = own.Retryable()
	}
	switch {
	case hasOwn && retry && class.Away():
		return Lost
	case hasOwn && retry:
		return Retryable
	case !retry && class == Lost:
		return Unavailable
	case !retry && class == Retryable:
		return Other
	}
	return class
}

// ClassifyCommit is Classify for an error that COMMIT returned: Ambiguous unless the server or the driver certainly
// refused the COMMIT.
func ClassifyCommit(err error) Class {
	// database/sql returns the bare error of a context if the context ended before anything was sent.
	if err == nil || isContext(err) || provesNoEffect(err, ofEveryCommit) {
		return Classify(err)
	}
	return Ambiguous
}

func classOf(err error) Class {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return classOfAnswer(e, isRefusal(err))
	}
	if e, ok := asSQLite(err); ok {
		return classOfSQLite(e)
	}
	_, network := errors.AsType[net.Error](err)
	switch {
	case isRefusal(err), trust.Refused(err), errors.Is(err, mysql.ErrNoTLS):
		return Untrusted
	case errors.Is(err, errReadOnly): // the next connection may reach another server
		return Lost
	case isContext(err):
		return Canceled
	case isDial(err), errors.Is(err, sql.ErrConnDone):
		return Unavailable
	case network, errors.Is(err, driver.ErrBadConn), errors.Is(err, mysql.ErrInvalidConn),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Lost
	}
	return Other
}

// classOfAnswer returns the class of a server's answer. connecting means that the answer refused a connection.
func classOfAnswer(e *mysql.MySQLError, connecting bool) Class {
	class, _ := meaning(e.Number)
	switch {
	case connecting && class == BadSetting:
		return Refused
	case e.Number == optionForbids && strings.Contains(e.Message, readOnlyText):
		return ReadOnly
	case class == Other && strings.HasPrefix(string(e.SQLState[:]), rolledBack):
		return Retryable
	}
	return class
}

// codedError is modernc.org/sqlite's error. The package is not imported: a service on MySQL would link it.
type codedError interface {
	error
	Code() int
}

func asSQLite(err error) (e codedError, ok bool) {
	e, ok = errors.AsType[codedError](err)
	return e, ok && fmt.Sprintf("%T", e) == "*sqlite.Error" // an error of a handler may have a code too
}

func classOfSQLite(e codedError) Class {
	if e.Code() == sqliteUnique || e.Code() == sqlitePrimary {
		return Duplicate
	}
	switch e.Code() & 0xff {
	case sqliteBusy, sqliteLocked, sqliteNoMem, sqliteInterrupt:
		return Retryable
	case sqliteIOErr, sqliteFull: // SQLite rolls back by itself
		return Lost
	case sqliteReadOnly, sqliteCantOpen:
		return Unavailable
	case sqliteError:
		if strings.Contains(e.Error(), "no such table") {
			return NoTable
		}
	}
	return Other
}

// provesNoEffect reports whether the error proves that a COMMIT, or an autocommit statement, took no effect.
func provesNoEffect(err error, want proof) bool {
	if errors.Is(err, ErrPoisoned) || errors.Is(err, sql.ErrTxDone) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, task.ErrClosed) {
		return true
	}
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		_, proves := meaning(e.Number)
		state := string(e.SQLState[:2])
		return proves >= want || state == rolledBack || want == ofStatement && slices.Contains(statesOfStatement, state)
	}
	e, ok := asSQLite(err)
	return ok && e.Code()&0xff != sqliteIOErr
}

// serverNumber returns the server's number of the error; 0 if no server answered.
func serverNumber(err error) uint16 {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number
	}
	return 0
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// isDial reports whether no connection was made, so that nothing was sent.
func isDial(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// isRefusal reports whether a connection was refused for good, as Refusal reports.
func isRefusal(err error) bool {
	_, refused := errors.AsType[*trust.Refusal](err)
	return refused
}

// Refusal returns an error that retrying cannot fix, with the key of the configuration to correct; nil for all other
// errors.
func Refusal(err error) error {
	class := Classify(err)
	switch {
	case !class.Refused():
		return nil
	case isRefusal(err):
		return err
	case class == Untrusted, serverNumber(err) == needsTLS:
		return &trust.Refusal{Key: "mysql.tls.ca_file", Err: err}
	}
	return &trust.Refusal{Key: "mysql.dsn", Err: err}
}

// refusedConnection names the key to correct if a connection was refused. A wrong parameter of the DSN is such a refusal
// too, since it fails each connection.
func refusedConnection(err error) error {
	if classOf(err) == BadSetting {
		return &trust.Refusal{Key: "mysql.dsn", Err: err}
	}
	return cmp.Or(Refusal(err), err)
}

// markUnlessRefused marks the error of an autocommit statement as ambiguous, unless it proves that the statement took no
// effect.
func markUnlessRefused(err error) error {
	err = closed(err)
	if err == nil || errors.Is(err, ErrConflict) || provesNoEffect(err, ofStatement) || isDial(err) || isRefusal(err) {
		return err
	}
	return &ambiguousError{cause: err}
}

// Retryable reports for a stage that the transaction did not commit and may commit if it is run again: deadlock, lock
// wait, ErrConflict, ErrPoisoned, or a connection lost before the COMMIT was sent. For an error of COMMIT itself, call
// Ambiguous first.
func (s *Store) Retryable(err error) bool { return Classify(err).Retryable() }

// Unavailable reports for a stage that the database can't be reached or can't write now: wait and try again. For an
// ambiguous error, its cause decides.
func (s *Store) Unavailable(err error) bool {
	if e, ok := errors.AsType[*ambiguousError](err); ok {
		err = e.cause
	}
	return Classify(err).Away()
}

// Ambiguous reports for a stage whether an error of COMMIT leaves open whether the COMMIT took effect.
func (s *Store) Ambiguous(err error) bool { return ClassifyCommit(err) == Ambiguous }

// Unclear reports for a stage whether an error of InsertAutocommit or WriteAutocommit leaves open whether it took effect.
func (s *Store) Unclear(err error) bool { return Classify(err) == Ambiguous }
