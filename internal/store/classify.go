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

// proof says which statements certainly took no effect when the server answers so; the classes of SQLSTATE prove it too. Any
// other answer, such as a proxy's, may come after the effect.
type proof int

const (
	nothing       proof = iota
	ofStatement         // a statement that was its own transaction
	ofEveryCommit       // that, and a COMMIT: the server says that it has rolled back
)

// answers are the error numbers of the servers on which something is decided. MariaDB's numbers differ from MySQL's only above
// 1900.
var answers = map[uint16]struct {
	class  Class
	proves proof
}{
	1020: {Retryable, ofEveryCommit}, // the record changed since the transaction's snapshot
	1205: {Retryable, ofEveryCommit}, // lock wait timeout
	1206: {Retryable, ofEveryCommit}, // lock table full
	1213: {Retryable, ofEveryCommit}, // deadlock

	1021: {Full, ofStatement}, // which number it is depends on the layer that finds out
	1026: {Full, nothing},
	1114: {Full, ofStatement},

	1040: {Unavailable, nothing}, // connections used up
	1047: {Unavailable, nothing}, // a cluster's node is not ready
	1053: {Unavailable, nothing}, // stopping
	1129: {Unavailable, nothing}, // host blocked
	1203: {Unavailable, nothing}, // the user's limit of connections
	1226: {Unavailable, nothing}, // another limit of the user
	1927: {Unavailable, nothing}, // connection killed
	3032: {Unavailable, nothing}, // offline mode
	3169: {Unavailable, nothing}, // session killed
	4031: {Unavailable, nothing}, // session idle for too long

	1290: {Unavailable, ofEveryCommit}, // an option forbids it: ReadOnly if that is read_only, see readOnlyText
	1792: {Unavailable, ofEveryCommit}, // the transaction is read-only
	1836: {ReadOnly, ofEveryCommit},

	1049: {NoDatabase, nothing},
	1146: {NoTable, nothing},
	1062: {Duplicate, nothing},

	1044:     {Refused, nothing}, // rights, passwords, plugins
	1045:     {Refused, nothing},
	1130:     {Refused, nothing},
	1142:     {Refused, nothing},
	1143:     {Refused, nothing},
	1227:     {Refused, nothing},
	1251:     {Refused, nothing},
	1524:     {Refused, nothing},
	1698:     {Refused, nothing},
	1820:     {Refused, nothing}, // expired or locked accounts
	1862:     {Refused, nothing},
	3118:     {Refused, nothing},
	needsTLS: {Refused, nothing},
	4151:     {Refused, nothing},

	1115: {BadSetting, nothing}, // charset
	1193: {BadSetting, nothing}, // unknown variable
	1229: {BadSetting, nothing},
	1231: {BadSetting, nothing}, // value of a variable
	1232: {BadSetting, nothing},
	1238: {BadSetting, nothing},
	1273: {BadSetting, nothing}, // collation
	1298: {BadSetting, nothing}, // time zone, also where the server's tables of zones were never loaded

	1153: {Other, ofStatement},   // packet too large
	1175: {Other, ofStatement},   // sql_safe_updates
	1364: {Other, ofStatement},   // no default
	1366: {Other, ofStatement},   // value of the wrong kind
	1526: {Other, ofStatement},   // no partition
	1665: {Other, ofStatement},   // binlog_format
	1969: {Other, ofStatement},   // time limit of the server
	3024: {Other, ofStatement},   // the same
	3100: {Other, ofEveryCommit}, // a plugin refused before the commit
	3101: {Other, ofEveryCommit}, // a plugin rolled back
	3819: {Other, ofStatement},   // CHECK
}

// needsTLS is what MySQL answers under require_secure_transport; MariaDB says that access is denied.
const needsTLS = 3159

// statesOfStatement are the classes of SQLSTATE with which a statement was not understood, or its values or the caller's rights
// did not do.
var statesOfStatement = []string{"21", "22", "23", "42"}

// rolledBack is the class of SQLSTATE of all answers with which the server says that it has rolled back.
const rolledBack = "40"

// readOnlyText is in the text of 1290 where the option is read_only or super_read_only.
const readOnlyText = "read-only"

// SQLite's primary result codes, and one extended code.
const (
	sqliteError     = 1
	sqliteBusy      = 5
	sqliteLocked    = 6
	sqliteNoMem     = 7
	sqliteReadOnly  = 8
	sqliteInterrupt = 9
	sqliteIOErr     = 10
	sqliteFull      = 13
	sqliteCantOpen  = 14
	sqliteUnique    = 2067
)

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
	class := answers[e.Number].class
	switch {
	case connecting && class == BadSetting:
		return Refused
	case e.Number == 1290 && strings.Contains(e.Message, readOnlyText):
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
		state := string(e.SQLState[:2])
		return answers[e.Number].proves >= want || state == rolledBack || want == ofStatement && slices.Contains(statesOfStatement, state)
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

// Unclear reports for a stage, of an error of InsertAlone or SaveAlone, that nobody can tell whether it took effect.
func (s *Store) Unclear(err error) bool { return Classify(err) == Ambiguous }
