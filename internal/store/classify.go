package store

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
	"modernc.org/sqlite"

	"github.com/duetime/duetime/internal/trust"
	"github.com/duetime/duetime/pkg/task"
)

// Class says what a caller should do about an error. Every error has exactly one.
type Class int

// The classes.
const (
	Other       Class = iota // also nil: nothing below is known of it; running the same again ends alike
	Retryable                // nothing was committed: run the whole transaction again (deadlock, lock wait, ErrConflict)
	Lost                     // as Retryable, and the database may be away: the connection broke before the COMMIT was sent
	Unavailable              // the database can't be reached or answers that it can't serve now: wait
	Full                     // no room on the server's disk: wait
	ReadOnly                 // the server refuses every write: wait for the next connection, which may reach the new primary
	NoDatabase               // the server has no schema of the DSN's name: wait for one that is about to be made
	NoTable                  // the schema has no such table: migrate has not run
	Refused                  // the server refuses the credentials or the right: waiting does not help
	Untrusted                // no connection: we don't believe the server, or it doesn't speak TLS. Waiting does not help
	BadSetting               // the server doesn't take a parameter of the DSN, or a statement's variable
	Duplicate                // a unique key is taken
	Canceled                 // the caller's context ended
	Ambiguous                // nobody can tell whether the COMMIT, or the autocommit statement, took effect
)

// Retryable reports whether the transaction did not commit and may do so when it is run again at once.
func (c Class) Retryable() bool { return c == Retryable || c == Lost }

// Away reports whether the database can't be reached or can't write now: wait and come back.
func (c Class) Away() bool {
	switch c {
	case Lost, Unavailable, Full, ReadOnly, NoDatabase, Untrusted:
		return true
	}
	return false
}

// Refused reports whether retrying fails until somebody changes a credential, a right or a certificate.
func (c Class) Refused() bool { return c == Refused || c == Untrusted }

// endsTx reports whether the server may have rolled the transaction back with this error, or will because the connection broke.
func (c Class) endsTx() bool { return c.Retryable() || c == Full || c == Canceled || c == Untrusted }

// Classify returns the class of an error. An error's own Retryable method counts, wherever it is in the chain. For an error of
// COMMIT itself ask ClassifyCommit.
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

// ClassifyCommit is Classify for an error that COMMIT returned: Ambiguous unless the server or the driver refused the COMMIT
// beyond doubt.
func ClassifyCommit(err error) Class {
	// database/sql returns the bare error of a context that ended before it sent anything.
	if err == nil || isContext(err) || provesNoEffect(err, ofEveryCommit) {
		return Classify(err)
	}
	return Ambiguous
}

func classOf(err error) Class {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return classOfAnswer(e, isRefusal(err))
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return classOfSQLite(e)
	}
	_, network := errors.AsType[net.Error](err)
	switch {
	case isRefusal(err), trust.Refused(err), errors.Is(err, mysql.ErrNoTLS):
		return Untrusted
	case errors.Is(err, errReadOnly): // the next connection is made to another server
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

// classOfAnswer is the class of what a server answered; connecting says that it is why no connection was made.
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

func classOfSQLite(e *sqlite.Error) Class {
	if e.Code() == sqliteUnique {
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

// provesNoEffect reports whether the error says that a COMMIT, or an autocommit statement, certainly took no effect.
func provesNoEffect(err error, want proof) bool {
	if errors.Is(err, ErrPoisoned) || errors.Is(err, sql.ErrTxDone) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, task.ErrClosed) {
		return true
	}
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		_, proves := meaning(e.Number)
		state := string(e.SQLState[:2])
		return proves >= want || state == rolledBack || want == ofStatement && slices.Contains(statesOfStatement, state)
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && e.Code()&0xff != sqliteIOErr
}

// serverNumber is the server's number for the error; 0 if no server answered.
func serverNumber(err error) uint16 {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number
	}
	return 0
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// isDial reports whether nothing was sent, because no connection was made.
func isDial(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// isRefusal reports whether no connection was made because somebody refused, as Refusal says.
func isRefusal(err error) bool {
	_, refused := errors.AsType[*trust.Refusal](err)
	return refused
}

// Refusal returns an error that retrying cannot fix with the name of the key to look at; nil for all other errors.
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

// refusedConnection names the key to look at where a connection was refused: also over a parameter of the DSN, since each
// connection would fail alike.
func refusedConnection(err error) error {
	if classOf(err) == BadSetting {
		return &trust.Refusal{Key: "mysql.dsn", Err: err}
	}
	return cmp.Or(Refusal(err), err)
}

// markUnlessRefused marks the error of an autocommit statement as ambiguous, unless the statement certainly took no effect.
func markUnlessRefused(err error) error {
	err = closed(err)
	if err == nil || errors.Is(err, ErrConflict) || provesNoEffect(err, ofStatement) || isDial(err) || isRefusal(err) {
		return err
	}
	return &ambiguousError{cause: err}
}

// Retryable reports for a stage that the transaction did not commit and may do so when run again: deadlock, lock wait,
// ErrConflict, ErrPoisoned, or a connection lost before the COMMIT was sent. For an error of COMMIT itself ask Ambiguous first.
func (s *Store) Retryable(err error) bool { return Classify(err).Retryable() }

// Unavailable reports for a stage that the database can't be reached or can't write now: wait and come back. An ambiguous error
// is judged by its cause.
func (s *Store) Unavailable(err error) bool {
	if e, ok := errors.AsType[*ambiguousError](err); ok {
		err = e.cause
	}
	return Classify(err).Away()
}

// Ambiguous reports for a stage, of an error of COMMIT, that nobody can tell whether it took effect.
func (s *Store) Ambiguous(err error) bool { return ClassifyCommit(err) == Ambiguous }

// Unclear reports for a stage, of an error of InsertAutocommit or SaveAutocommit, that nobody can tell whether it took effect.
func (s *Store) Unclear(err error) bool { return Classify(err) == Ambiguous }
